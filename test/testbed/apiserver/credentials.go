// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/pki"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// Port returns the loopback port of the API server.
func (s *Server) Port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.port
}

// RESTConfig returns the cluster administrator's access, without client-side rate limits. The caller may change the
// configuration.
func (s *Server) RESTConfig() *rest.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restConfig()
}

func (s *Server) restConfig() *rest.Config {
	return &rest.Config{
		Host: "https://" + process.Loopback(s.port),
		TLSClientConfig: rest.TLSClientConfig{
			CAData: s.ca.PEM(), CertData: s.admin.Cert, KeyData: s.admin.Key,
		},
		QPS:       -1,
		UserAgent: "helmop-testbed",
	}
}

// Kubeconfig returns the cluster administrator's kubeconfig.
func (s *Server) Kubeconfig() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kubeconfig("kubernetes-admin", certUser(s.admin))
}

// UserKubeconfig returns the kubeconfig of a new client certificate for the given user and groups. RBAC decides what
// the user may do.
func (s *Server) UserKubeconfig(user string, groups ...string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.userKubeconfig(user, groups...)
}

func (s *Server) userKubeconfig(user string, groups ...string) ([]byte, error) {
	pair, err := s.ca.Client(user, groups...)
	if err != nil {
		return nil, err
	}
	return s.kubeconfig(user, certUser(pair))
}

// ServiceAccountKubeconfig requests a token for an existing ServiceAccount,
// valid for ttl (at least 10 minutes), and returns a kubeconfig with it.
func (s *Server) ServiceAccountKubeconfig(ctx context.Context, namespace, name string,
	ttl time.Duration,
) ([]byte, error) {
	client, err := kubernetes.NewForConfig(s.RESTConfig())
	if err != nil {
		return nil, err
	}
	seconds := int64(ttl.Seconds())
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("request a token of the service account %s/%s: %w", namespace, name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kubeconfig(name, &clientcmdapi.AuthInfo{Token: token.Status.Token})
}

// WaitAllowed waits until the server permits the access to the user. The server's authorizer observes a new binding
// with a short delay.
func (s *Server) WaitAllowed(ctx context.Context, user string, access authorizationv1.ResourceAttributes) error {
	client, err := kubernetes.NewForConfig(s.RESTConfig())
	if err != nil {
		return err
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
		ResourceAttributes: &access}}
	if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 3*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			got, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			return err == nil && got.Status.Allowed, err
		}); err != nil {
		return fmt.Errorf("wait until %s may %s %s in %q: %w", user, access.Verb, access.Resource, access.Namespace, err)
	}
	return nil
}

func certUser(pair pki.Pair) *clientcmdapi.AuthInfo {
	return &clientcmdapi.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}
}

func (s *Server) kubeconfig(user string, auth *clientcmdapi.AuthInfo) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[s.opts.Name] = &clientcmdapi.Cluster{
		Server:                   "https://" + process.Loopback(s.port),
		CertificateAuthorityData: s.ca.PEM(),
	}
	config.AuthInfos[user] = auth
	context := user + "@" + s.opts.Name
	config.Contexts[context] = &clientcmdapi.Context{Cluster: s.opts.Name, AuthInfo: user}
	config.CurrentContext = context
	return clientcmd.Write(*config)
}
