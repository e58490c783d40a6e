package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// tokens are those of ServiceAccounts, as TokenRequest makes them: signed with RS256, bound to the
// account and, if asked, to a Pod and its node. They hold as long as what they are bound to is there.
type tokens struct {
	key    *rsa.PrivateKey
	issuer string
	get    func(ctx context.Context, resource, namespace, name string) (runtime.Object, error)
}

type bound struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

type claims struct {
	Audience []string `json:"aud"`
	Expires  int64    `json:"exp"`
	Issued   int64    `json:"iat"`
	Issuer   string   `json:"iss"`
	ID       string   `json:"jti"`
	Subject  string   `json:"sub"`
	Kube     struct {
		Namespace string `json:"namespace"`
		Account   bound  `json:"serviceaccount"`
		Pod       *bound `json:"pod,omitempty"`
		Node      *bound `json:"node,omitempty"`
	} `json:"kubernetes.io"`
}

func encode(value any) string {
	text, _ := json.Marshal(value)
	return base64.RawURLEncoding.EncodeToString(text)
}

func (t *tokens) sign(c claims) (string, error) {
	text := encode(map[string]string{"alg": "RS256", "typ": "JWT"}) + "." + encode(c)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, t.key, crypto.SHA256, digest[:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// read is the claims of a token that this server signed; nil for any other token.
func (t *tokens) read(token string) *claims {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || rsa.VerifyPKCS1v15(&t.key.PublicKey, crypto.SHA256, digest[:], signature) != nil {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	c := &claims{}
	if err != nil || json.Unmarshal(text, c) != nil {
		return nil
	}
	return c
}

func (t *tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	c := t.read(token)
	if c == nil || t.get == nil {
		return nil, false, nil
	}
	if time.Now().Unix() >= c.Expires {
		return nil, false, errors.New("service account token has expired")
	}
	audiences := authenticator.Audiences(c.Audience)
	if wanted, ok := authenticator.AudiencesFrom(ctx); ok && len(wanted) > 0 {
		audiences = audiences.Intersect(wanted)
	} else {
		audiences = audiences.Intersect(authenticator.Audiences{t.issuer})
	}
	if len(audiences) == 0 {
		return nil, false, errors.New("token audiences are not this server's")
	}
	about := serviceaccount.ServiceAccountInfo{
		Namespace: c.Kube.Namespace, Name: c.Kube.Account.Name, UID: c.Kube.Account.UID, CredentialID: "JTI=" + c.ID,
	}
	if err := t.same(ctx, "serviceaccounts", c.Kube.Namespace, c.Kube.Account); err != nil {
		return nil, false, err
	}
	if pod := c.Kube.Pod; pod != nil {
		if err := t.same(ctx, "pods", c.Kube.Namespace, *pod); err != nil {
			return nil, false, err
		}
		about.PodName, about.PodUID = pod.Name, pod.UID
	}
	if node := c.Kube.Node; node != nil {
		about.NodeName, about.NodeUID = node.Name, node.UID
	}
	return &authenticator.Response{User: about.UserInfo(), Audiences: audiences}, true, nil
}

func (t *tokens) same(ctx context.Context, resource, namespace string, wanted bound) error {
	object, err := t.get(ctx, resource, namespace, wanted.Name)
	if err != nil {
		return err
	}
	accessor, err := meta.Accessor(object)
	if err == nil && string(accessor.GetUID()) != wanted.UID {
		return fmt.Errorf("%s %s/%s is another one than the token's", resource, namespace, wanted.Name)
	}
	return err
}

// tokenREST is the subresource `token` of ServiceAccounts.
type tokenREST struct{ *tokens }

func (tokenREST) New() runtime.Object { return &authenticationv1.TokenRequest{} }
func (tokenREST) Destroy()            {}
func (tokenREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")
}

func (t tokenREST) Create(ctx context.Context, name string, object runtime.Object, validate rest.ValidateObjectFunc,
	_ *metav1.CreateOptions,
) (runtime.Object, error) {
	asked := object.(*authenticationv1.TokenRequest)
	namespace := request.NamespaceValue(ctx)
	found, err := t.get(ctx, "serviceaccounts", namespace, name)
	if err != nil {
		return nil, err
	}
	account := found.(*corev1.ServiceAccount)
	asked.Name, asked.Namespace = name, namespace
	if asked.Spec.ExpirationSeconds == nil {
		hour := int64(3600)
		asked.Spec.ExpirationSeconds = &hour
	}
	if *asked.Spec.ExpirationSeconds < 600 || *asked.Spec.ExpirationSeconds > 1<<32 {
		text := "may not specify a duration less than 10 minutes"
		if *asked.Spec.ExpirationSeconds > 1<<32 {
			text = "may not specify a duration larger than 2^32 seconds"
		}
		at := field.NewPath("spec", "expirationSeconds")
		wrong := field.ErrorList{field.Invalid(at, *asked.Spec.ExpirationSeconds, text)}
		return nil, apierrors.NewInvalid(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest").GroupKind(), name, wrong)
	}
	if len(asked.Spec.Audiences) == 0 {
		asked.Spec.Audiences = []string{t.issuer}
	}
	if err := validate(ctx, asked.DeepCopyObject()); err != nil {
		return nil, err
	}
	now := time.Now()
	ends := now.Add(time.Duration(*asked.Spec.ExpirationSeconds) * time.Second)
	c := claims{
		Audience: asked.Spec.Audiences, Expires: ends.Unix(), Issued: now.Unix(), Issuer: t.issuer,
		ID: string(uuid.NewUUID()), Subject: serviceaccount.MakeUsername(namespace, name),
	}
	c.Kube.Namespace = namespace
	c.Kube.Account = bound{name, string(account.UID)}
	if ref := asked.Spec.BoundObjectRef; ref != nil {
		if err := t.bind(ctx, &c, ref, name); err != nil {
			return nil, err
		}
	}
	token, err := t.sign(c)
	asked.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(ends)}
	return asked, err
}

// bind binds a token to a Pod of the account, and to its node.
func (t tokenREST) bind(ctx context.Context, c *claims, ref *authenticationv1.BoundObjectReference, account string) error {
	if ref.Kind != "Pod" {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to type %s here", account, ref.Kind))
	}
	found, err := t.get(ctx, "pods", c.Kube.Namespace, ref.Name)
	if err != nil {
		return err
	}
	pod := found.(*corev1.Pod)
	if ref.UID != "" && ref.UID != pod.UID {
		return apierrors.NewConflict(corev1.Resource("pods"), ref.Name, fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record", ref.UID))
	}
	if pod.Spec.ServiceAccountName != account {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account))
	}
	c.Kube.Pod = &bound{pod.Name, string(pod.UID)}
	if pod.Spec.NodeName == "" {
		return nil
	}
	c.Kube.Node = &bound{Name: pod.Spec.NodeName}
	if node, err := t.get(ctx, "nodes", "", pod.Spec.NodeName); err == nil {
		c.Kube.Node.UID = string(node.(*corev1.Node).UID)
	}
	return nil
}
