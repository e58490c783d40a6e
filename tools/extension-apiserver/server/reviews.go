package main

import (
	"context"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// review answers one question to the server's own authorizer or authenticator.
type review struct {
	kind       schema.GroupVersionKind
	namespaced bool
	answer     func(ctx context.Context, question runtime.Object) error
}

func (r review) New() runtime.Object     { return newObject(r.kind) }
func (r review) Destroy()                {}
func (r review) NamespaceScoped() bool   { return r.namespaced }
func (r review) GetSingularName() string { return singular(r.kind.Kind) }

func (r review) Create(ctx context.Context, question runtime.Object, validate rest.ValidateObjectFunc,
	_ *metav1.CreateOptions,
) (runtime.Object, error) {
	if validate != nil {
		if err := validate(ctx, question.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	return question, r.answer(ctx, question)
}

func singular(kind string) string {
	_, one := guess(kind)
	return one
}

func reviewStorage(c *genericapiserver.Config) map[schema.GroupVersion]map[string]rest.Storage {
	may := func(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec, status *authorizationv1.SubjectAccessReviewStatus) {
		decision, reason, err := c.Authorization.Authorizer.Authorize(ctx, attributesOf(spec))
		status.Allowed = decision == authorizer.DecisionAllow
		status.Denied = decision == authorizer.DecisionDeny
		status.Reason = reason
		if err != nil {
			status.EvaluationError = err.Error()
		}
	}
	answers := map[string]func(context.Context, runtime.Object) error{
		"SubjectAccessReview": func(ctx context.Context, object runtime.Object) error {
			q := object.(*authorizationv1.SubjectAccessReview)
			may(ctx, &q.Spec, &q.Status)
			return nil
		},
		"LocalSubjectAccessReview": func(ctx context.Context, object runtime.Object) error {
			q := object.(*authorizationv1.LocalSubjectAccessReview)
			may(ctx, &q.Spec, &q.Status)
			return nil
		},
		"SelfSubjectAccessReview": func(ctx context.Context, object runtime.Object) error {
			q := object.(*authorizationv1.SelfSubjectAccessReview)
			me, _ := request.UserFrom(ctx)
			spec := authorizationv1.SubjectAccessReviewSpec{
				ResourceAttributes: q.Spec.ResourceAttributes, NonResourceAttributes: q.Spec.NonResourceAttributes,
				User: me.GetName(), UID: me.GetUID(), Groups: me.GetGroups(),
			}
			may(ctx, &spec, &q.Status)
			return nil
		},
		"SelfSubjectRulesReview": func(ctx context.Context, object runtime.Object) error {
			q := object.(*authorizationv1.SelfSubjectRulesReview)
			me, _ := request.UserFrom(ctx)
			resources, paths, incomplete, err := c.RuleResolver.RulesFor(ctx, me, q.Spec.Namespace)
			if err != nil {
				return apierrors.NewBadRequest(err.Error())
			}
			q.Status = authorizationv1.SubjectRulesReviewStatus{
				ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
				Incomplete: incomplete,
			}
			for _, rule := range resources {
				q.Status.ResourceRules = append(q.Status.ResourceRules, authorizationv1.ResourceRule{
					Verbs: rule.GetVerbs(), APIGroups: rule.GetAPIGroups(),
					Resources: rule.GetResources(), ResourceNames: rule.GetResourceNames(),
				})
			}
			for _, rule := range paths {
				q.Status.NonResourceRules = append(q.Status.NonResourceRules, authorizationv1.NonResourceRule{
					Verbs: rule.GetVerbs(), NonResourceURLs: rule.GetNonResourceURLs(),
				})
			}
			return nil
		},
		"SelfSubjectReview": func(ctx context.Context, object runtime.Object) error {
			me, _ := request.UserFrom(ctx)
			object.(*authenticationv1.SelfSubjectReview).Status.UserInfo = infoOf(me)
			return nil
		},
		"TokenReview": func(ctx context.Context, object runtime.Object) error {
			q := object.(*authenticationv1.TokenReview)
			asking := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + q.Spec.Token}}}).WithContext(ctx)
			response, ok, err := c.Authentication.Authenticator.AuthenticateRequest(asking)
			q.Status.Authenticated = ok && err == nil && response.User.GetName() != user.Anonymous
			if q.Status.Authenticated {
				q.Status.User = infoOf(response.User)
			}
			if err != nil {
				q.Status.Error = err.Error()
			}
			return nil
		},
	}
	storage := map[schema.GroupVersion]map[string]rest.Storage{}
	for _, kind := range reviews {
		if storage[kind.GroupVersion()] == nil {
			storage[kind.GroupVersion()] = map[string]rest.Storage{}
		}
		resource, _ := guess(kind.Kind)
		storage[kind.GroupVersion()][resource] = review{kind, kind.Kind == "LocalSubjectAccessReview", answers[kind.Kind]}
	}
	return storage
}

func attributesOf(spec *authorizationv1.SubjectAccessReviewSpec) authorizer.Attributes {
	extra := map[string][]string{}
	for key, values := range spec.Extra {
		extra[key] = values
	}
	who := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups, Extra: extra}
	if at := spec.NonResourceAttributes; at != nil {
		return authorizer.AttributesRecord{User: who, Verb: at.Verb, Path: at.Path}
	}
	at := spec.ResourceAttributes
	if at == nil {
		at = &authorizationv1.ResourceAttributes{}
	}
	return authorizer.AttributesRecord{
		User: who, Verb: at.Verb, Namespace: at.Namespace, APIGroup: at.Group, APIVersion: at.Version,
		Resource: at.Resource, Subresource: at.Subresource, Name: at.Name, ResourceRequest: true,
	}
}

func infoOf(who user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups()}
	for key, values := range who.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}
