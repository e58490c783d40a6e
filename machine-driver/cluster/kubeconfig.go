// Package cluster reaches the API server of Harvester: the kubeconfig, requests and their errors.
package cluster

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster string `yaml:"cluster"`
			User    string `yaml:"user"`
		} `yaml:"context"`
	} `yaml:"contexts"`
	Clusters []struct {
		Name    string `yaml:"name"`
		Cluster server `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string `yaml:"name"`
		User user   `yaml:"user"`
	} `yaml:"users"`
}

type server struct {
	Server   string `yaml:"server"`
	CAData   string `yaml:"certificate-authority-data"`
	CAFile   string `yaml:"certificate-authority"`
	Name     string `yaml:"tls-server-name"`
	Insecure bool   `yaml:"insecure-skip-tls-verify"`
	Proxy    string `yaml:"proxy-url"`
}

type user struct {
	Token     string      `yaml:"token"`
	TokenFile string      `yaml:"tokenFile"`
	CertData  string      `yaml:"client-certificate-data"`
	CertFile  string      `yaml:"client-certificate"`
	KeyData   string      `yaml:"client-key-data"`
	KeyFile   string      `yaml:"client-key"`
	Username  string      `yaml:"username"`
	Password  string      `yaml:"password"`
	Exec      interface{} `yaml:"exec"`
	Provider  interface{} `yaml:"auth-provider"`
}

// requestTimeout is how long one request may take.
const requestTimeout = 30 * time.Second

// New is a client for the cluster of a kubeconfig. With an empty one, the file that KUBECONFIG names
// is read; only this one may name further files. An error says what is wrong with the kubeconfig, and
// repeats nothing of it but names.
func New(content string) (*Client, error) {
	folder, pasted := "", content != ""
	if !pasted {
		path := os.Getenv("KUBECONFIG")
		if path == "" {
			return nil, errors.New("kubeconfigContent is empty: give the kubeconfig of the Harvester " +
				"cluster, or choose a cloud credential that has it")
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("the kubeconfig that KUBECONFIG names cannot be read: %w", err)
		}
		content, folder = string(data), filepath.Dir(path)
	}
	client, err := parse(content, folder, pasted)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	return client, nil
}

func parse(content, folder string, pasted bool) (*Client, error) {
	var found kubeconfig
	// The errors of the decoder repeat what they stumble over, which may be a token.
	if err := yaml.NewDecoder(strings.NewReader(content)).Decode(&found); err != nil {
		return nil, errors.New("it is not YAML of the right form")
	}
	server, user, err := found.current()
	if err != nil {
		return nil, err
	}
	if pasted {
		if err := refuseFiles(server, user); err != nil {
			return nil, err
		}
	}
	address, err := url.Parse(server.Server)
	if err != nil || address.Host == "" || address.Scheme != "https" {
		return nil, fmt.Errorf("its server %.200q is not a URL with https", server.Server)
	}
	address.Path = strings.TrimRight(address.Path, "/")
	transport, err := transport(server, user, folder)
	if err != nil {
		return nil, err
	}
	client := &Client{
		server: address,
		http:   &http.Client{Transport: transport, Timeout: requestTimeout, CheckRedirect: stay},
		user:   user.Username, password: user.Password,
	}
	client.token, err = user.token(folder)
	return client, err
}

// stay follows no redirect: API servers send none, and another server would not be the one that was
// checked.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// refuseFiles: a kubeconfig from a form is read where Rancher runs the driver. Whoever writes it must
// not have files of that place sent to a server of theirs, nor learn which exist.
func refuseFiles(server *server, user *user) error {
	for _, one := range []struct{ field, path, instead string }{
		{"certificate-authority", server.CAFile, "certificate-authority-data"},
		{"client-certificate", user.CertFile, "client-certificate-data"},
		{"client-key", user.KeyFile, "client-key-data"},
		{"tokenFile", user.TokenFile, "token"},
	} {
		if one.path != "" {
			return fmt.Errorf("its %s names a file, and the driver reads no files for a kubeconfig that "+
				"was given as text. Put the content into the kubeconfig, as %s; for certificates, "+
				"`kubectl config view --flatten --minify --raw` does that", one.field, one.instead)
		}
	}
	return nil
}

// current gives the cluster and the user of the current context, or of the only one.
func (k *kubeconfig) current() (*server, *user, error) {
	if k.CurrentContext == "" && len(k.Contexts) == 1 {
		k.CurrentContext = k.Contexts[0].Name
	}
	if k.CurrentContext == "" {
		return nil, nil, errors.New("it has no current-context")
	}
	for _, context := range k.Contexts {
		if context.Name != k.CurrentContext {
			continue
		}
		for _, cluster := range k.Clusters {
			if cluster.Name != context.Context.Cluster {
				continue
			}
			for _, user := range k.Users {
				if user.Name == context.Context.User {
					return &cluster.Cluster, &user.User, nil
				}
			}
			return nil, nil, fmt.Errorf("it has no user %q", context.Context.User)
		}
		return nil, nil, fmt.Errorf("it has no cluster %q", context.Context.Cluster)
	}
	return nil, nil, fmt.Errorf("it has no context %q, which is its current-context", k.CurrentContext)
}

func (u *user) token(folder string) (string, error) {
	if u.Exec != nil || u.Provider != nil {
		return "", errors.New("its user logs in by another program (exec or auth-provider). " +
			"Use one with a token or a client certificate")
	}
	if u.TokenFile == "" || u.Token != "" {
		return u.Token, nil
	}
	data, err := os.ReadFile(beside(folder, u.TokenFile))
	return strings.TrimSpace(string(data)), err
}

func transport(server *server, user *user, folder string) (*http.Transport, error) {
	made := http.DefaultTransport.(*http.Transport).Clone()
	made.TLSClientConfig = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         server.Name,
		InsecureSkipVerify: server.Insecure,
	}
	authority, err := bytesOf("certificate-authority", server.CAData, server.CAFile, folder)
	if err != nil {
		return nil, err
	}
	if len(authority) > 0 {
		made.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !made.TLSClientConfig.RootCAs.AppendCertsFromPEM(authority) {
			return nil, errors.New("its certificate-authority has no certificate")
		}
	}
	certificate, err := bytesOf("client-certificate", user.CertData, user.CertFile, folder)
	if err != nil {
		return nil, err
	}
	key, err := bytesOf("client-key", user.KeyData, user.KeyFile, folder)
	if err != nil {
		return nil, err
	}
	if len(certificate) > 0 {
		pair, err := tls.X509KeyPair(bytes.TrimSpace(certificate), bytes.TrimSpace(key))
		if err != nil {
			return nil, errors.New("its client-certificate and client-key do not belong together")
		}
		made.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	if server.Proxy != "" {
		proxy, err := url.Parse(server.Proxy)
		if err != nil || proxy.Host == "" {
			return nil, errors.New("its proxy-url is not a URL")
		}
		made.Proxy = http.ProxyURL(proxy)
	}
	return made, nil
}

// bytesOf is what stands in a kubeconfig in base64, or in the file that it names instead.
func bytesOf(what, data, path, folder string) ([]byte, error) {
	if data != "" {
		decoded, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, fmt.Errorf("its %s-data is not base64", what)
		}
		return decoded, nil
	}
	if path == "" {
		return nil, nil
	}
	return os.ReadFile(beside(folder, path))
}

func beside(folder, path string) string {
	if folder == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}
