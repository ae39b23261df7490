// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"

	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// parsedChart is a chart as Helm holds it in memory.
type parsedChart = *helmchart.Chart

func parse(archive []byte) (parsedChart, error) { return loader.LoadArchive(bytes.NewReader(archive)) }

// plain is the contestant Plain.
type plain struct {
	getters []*plainGetter
}

func newPlain(configs []*rest.Config) (*plain, error) {
	p := &plain{}
	for _, config := range configs {
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return nil, err
		}
		cached := memory.NewMemCacheClient(client)
		p.getters = append(p.getters, &plainGetter{
			config: config, discovery: cached, mapper: restmapper.NewDeferredDiscoveryRESTMapper(cached),
		})
	}
	return p, nil
}

func (p *plain) configuration(r release) (*action.Configuration, error) {
	config := &action.Configuration{}
	getter := &namespacedGetter{plainGetter: p.getters[r.cluster], namespace: r.namespace}
	return config, config.Init(getter, r.namespace, "secret", func(string, ...any) {})
}

func (p *plain) install(r release) error {
	config, err := p.configuration(r)
	if err != nil {
		return err
	}
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = r.name, r.namespace, true
	_, err = install.Run(r.chart.parsed, maps.Clone(r.values))
	return err
}

func (p *plain) upgrade(r release) error {
	config, err := p.configuration(r)
	if err != nil {
		return err
	}
	upgrade := action.NewUpgrade(config)
	upgrade.Namespace, upgrade.MaxHistory = r.namespace, 10
	_, err = upgrade.Run(r.name, r.chart.parsed, maps.Clone(r.values))
	return err
}

// check compares the release with the desired state, by Helm's record.
func (p *plain) check(r release) error {
	config, err := p.configuration(r)
	if err != nil {
		return err
	}
	last, err := config.Releases.Last(r.name)
	if err != nil {
		return err
	}
	if last.Chart.Metadata.Version != r.chart.parsed.Metadata.Version || !reflect.DeepEqual(last.Config, r.values) {
		return fmt.Errorf("%s is not in the desired state", r.name)
	}
	return nil
}

func (p *plain) uninstall(r release) error {
	config, err := p.configuration(r)
	if err != nil {
		return err
	}
	_, err = action.NewUninstall(config).Run(r.name)
	return err
}

// plainGetter provides Helm with one cluster's clients.
type plainGetter struct {
	config    *rest.Config
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper
}

// ToRESTConfig implements action.RESTClientGetter.
func (g *plainGetter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

// ToDiscoveryClient implements action.RESTClientGetter.
func (g *plainGetter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery, nil
}

// ToRESTMapper implements action.RESTClientGetter.
func (g *plainGetter) ToRESTMapper() (meta.RESTMapper, error) { return g.mapper, nil }

// namespacedGetter creates objects without a namespace in the namespace of their release.
type namespacedGetter struct {
	*plainGetter
	namespace string
}

// ToRawKubeConfigLoader implements genericclioptions.RESTClientGetter.
func (g *namespacedGetter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}}
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}
