// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"strconv"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/validation"
)

// Getter provides Helm with the clients for one action. The clients use the discovered kinds of the connection, and
// their requests end with the action. Getter implements Helm's RESTClientGetter and kube.Factory.
type Getter struct {
	Conn   *Connection
	Config *rest.Config

	once      sync.Once
	clientset *kubernetes.Clientset
	err       error
}

// IsMissing reports whether the action has just observed that the namespace does not exist.
func (g *Getter) IsMissing(namespace string) bool {
	reads, ok := g.Config.Transport.(*readCache)
	return ok && reads.isMissing(namespace)
}

// AssumeMissing makes reads of objects in a namespace return that the objects do not exist, until the action creates
// the namespace. It returns false, and does nothing, if the namespace is known to exist.
func (g *Getter) AssumeMissing(namespace string) bool {
	reads, ok := g.Config.Transport.(*readCache)
	return ok && reads.assumeMissing(namespace)
}

// ToRESTConfig implements resource.RESTClientGetter.
func (g *Getter) ToRESTConfig() (*rest.Config, error) {
	config := *g.Config
	return &config, nil
}

// ToDiscoveryClient implements resource.RESTClientGetter.
func (g *Getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.Conn.Kinds.discovery(), nil
}

// ToRESTMapper implements resource.RESTClientGetter.
func (g *Getter) ToRESTMapper() (meta.RESTMapper, error) { return g.Conn.Kinds.Mapper(), nil }

// ToRawKubeConfigLoader implements genericclioptions.RESTClientGetter. It returns an empty kubeconfig.
func (g *Getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), &clientcmd.ConfigOverrides{})
}

// DynamicClient implements Helm's kube.Factory.
func (g *Getter) DynamicClient() (dynamic.Interface, error) { return dynamic.NewForConfig(g.Config) }

// KubernetesClientSet implements Helm's kube.Factory.
func (g *Getter) KubernetesClientSet() (*kubernetes.Clientset, error) {
	g.once.Do(func() { g.clientset, g.err = kubernetes.NewForConfig(g.Config) })
	return g.clientset, g.err
}

// NewBuilder implements Helm's kube.Factory.
func (g *Getter) NewBuilder() *resource.Builder { return resource.NewBuilder(g) }

// Validator implements Helm's kube.Factory. Since Kubernetes 1.25, the API server validates fields itself. So HelmOp
// does not use kubectl's validator: it would accept everything, but only after it has read megabytes of OpenAPI
// documents.
func (g *Getter) Validator(directive string) (validation.Schema, error) {
	if directive == metav1.FieldValidationIgnore || g.serverValidates() {
		return validation.NullSchema{}, nil
	}
	return cmdutil.NewFactory(g).Validator(directive)
}

// serverValidates reports whether the API server validates fields.
func (g *Getter) serverValidates() bool {
	known, err := g.Conn.Kinds.lookup()
	return err == nil && validatesFields(known.capabilities.KubeVersion)
}

// validatesFields reports whether an API server of a version validates fields.
func validatesFields(version chartutil.KubeVersion) bool {
	major, err := strconv.Atoi(version.Major)
	if err != nil {
		return false
	}
	// Some distributions append a plus sign, as in "27+".
	minor, err := strconv.Atoi(strings.TrimRight(version.Minor, "+"))
	if err != nil {
		return false
	}
	return major > 1 || major == 1 && minor >= 25
}
