// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// versions are the versions of all components.
type versions struct {
	Client     string            `json:"client"`
	Kubernetes string            `json:"kubernetes,omitempty"`
	Managers   []managerVersion  `json:"managers,omitempty"`
	Providers  []providerVersion `json:"providers,omitempty"`
	CRDs       []crdVersions     `json:"crds,omitempty"`
}

// managerVersion is the image of a Pod of the manager.
type managerVersion struct {
	Pod      string `json:"pod"`
	Image    string `json:"image"`
	ImageID  string `json:"imageID,omitempty"`
	Restarts int32  `json:"restarts"`
}

// providerVersion is a provider that clusterctl installed.
type providerVersion struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Type      string `json:"type"`
	Version   string `json:"version"`
}

// crdVersions are the versions of a CRD of Cluster API or of HelmOp.
type crdVersions struct {
	Name     string   `json:"name"`
	Served   []string `json:"served"`
	Storage  string   `json:"storage"`
	Stored   []string `json:"stored"`
	Problems []string `json:"problems,omitempty"`
}

// collectVersions reads the versions. It is called after the Pods were read.
func (c *collector) collectVersions(ctx context.Context) {
	c.versions.Client = version.String()
	if server, err := c.managers.Discovery().ServerVersion(); err != nil {
		c.note("the version of Kubernetes", kube.Explain(err))
	} else {
		c.versions.Kubernetes = server.String()
	}
	for i := range c.pods {
		pod := &c.pods[i]
		for _, status := range pod.Status.ContainerStatuses {
			if status.Name == containerOf(pod) {
				c.versions.Managers = append(c.versions.Managers, managerVersion{Pod: pod.Name, Image: status.Image,
					ImageID: status.ImageID, Restarts: status.RestartCount})
			}
		}
	}
	for _, provider := range c.list(ctx, providers, "") {
		text := func(field string) string {
			value, _, _ := unstructured.NestedString(provider.Object, field)
			return value
		}
		c.versions.Providers = append(c.versions.Providers, providerVersion{Namespace: provider.GetNamespace(),
			Name: text("providerName"), Type: text("type"), Version: text("version")})
	}
	for _, crd := range c.list(ctx, crds, "") {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		if strings.HasSuffix(group, "cluster.x-k8s.io") {
			c.versions.CRDs = append(c.versions.CRDs, crdVersionsOf(crd.Object))
		}
	}
}

// crdVersionsOf returns the versions of a CRD, and its conditions that name a problem.
func crdVersionsOf(crd map[string]any) crdVersions {
	found := crdVersions{}
	found.Name, _, _ = unstructured.NestedString(crd, "metadata", "name")
	found.Stored, _, _ = unstructured.NestedStringSlice(crd, "status", "storedVersions")
	all, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	for _, item := range all {
		fields, _ := item.(map[string]any)
		name, _ := fields["name"].(string)
		if fields["served"] == true {
			found.Served = append(found.Served, name)
		}
		if fields["storage"] == true {
			found.Storage = name
		}
	}
	conditions, _, _ := unstructured.NestedSlice(crd, "status", "conditions")
	for _, item := range conditions {
		fields, _ := item.(map[string]any)
		kind, _ := fields["type"].(string)
		message, _ := fields["message"].(string)
		isGood := kind == "Established" || kind == "NamesAccepted"
		if isGood != (fields["status"] == "True") {
			found.Problems = append(found.Problems, kind+": "+message)
		}
	}
	return found
}
