package main

import (
	"crypto/rsa"
	"fmt"

	"github.com/spf13/pflag"
	apiserverconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	authenticators "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authorizers "k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/util/keyutil"
)

// identity says who may come in: tokens of a file and of ServiceAccounts, client certificates, and
// anonymous for what RBAC gives them. Another user with groups and extra fields is had by impersonation.
type identity struct {
	tokens, clientCA, signingKey string
	accounts                     tokens
}

func (i *identity) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&i.tokens, "token-auth-file", "", "tokens: token,user,uid,groups in each line")
	flags.StringVar(&i.clientCA, "client-ca-file", "", "certificate authority of client certificates")
	flags.StringVar(&i.signingKey, "service-account-signing-key-file", "", "RSA key that signs tokens of ServiceAccounts")
	flags.StringVar(&i.accounts.issuer, "service-account-issuer", "https://kubernetes.default.svc", "their issuer and audience")
}

func (i *identity) applyTo(c *genericapiserver.Config, shared informers.SharedInformerFactory) error {
	var known []authenticator.Request
	if i.tokens != "" {
		tokens, err := tokenfile.NewCSV(i.tokens)
		if err != nil {
			return err
		}
		known = append(known, bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens))
	}
	if i.signingKey != "" {
		key, err := keyutil.PrivateKeyFromFile(i.signingKey)
		if err != nil {
			return err
		}
		var ok bool
		if i.accounts.key, ok = key.(*rsa.PrivateKey); !ok {
			return fmt.Errorf("%s has no RSA key", i.signingKey)
		}
		c.Authentication.APIAudiences = authenticator.Audiences{i.accounts.issuer}
		known = append(known, bearertoken.New(&i.accounts), websocket.NewProtocolAuthenticator(&i.accounts))
	}
	if i.clientCA != "" {
		ca, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", i.clientCA)
		if err != nil {
			return err
		}
		if err := c.Authentication.ApplyClientCert(ca, c.SecureServing); err != nil {
			return err
		}
		known = append(known, x509.NewDynamic(ca.VerifyOptions, x509.CommonNameUserConversion))
	}
	c.Authentication.Authenticator = authenticators.NewFailOnError(
		group.NewAuthenticatedGroupAdder(authenticators.New(known...)),
		anonymous.NewAuthenticator([]apiserverconfig.AnonymousAuthCondition{}))
	roles := newRBAC(shared.Rbac().V1())
	c.Authorization.Authorizer = authorizers.New(
		authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup), roles)
	c.RuleResolver = roles
	return nil
}
