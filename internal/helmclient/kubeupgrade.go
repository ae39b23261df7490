// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/dynamic"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Upgraded describes a cluster after an upgrade of Kubernetes.
type Upgraded struct {
	// KubeVersion is the new version of Kubernetes.
	KubeVersion string
	// Serves reports whether the new version still serves an API that the cluster serves now.
	Serves func(schema.GroupVersionKind) bool
}

// RenderUpgraded is Render for the cluster after an upgrade of Kubernetes: templates see the new version, and the API
// versions of the cluster that the new version still serves.
func (c *Client) RenderUpgraded(ctx context.Context, target model.Target, desired model.Desired, options model.Options,
	chrt *chart.Chart, values map[string]any, upgraded Upgraded,
) (DryRun, error) {
	return c.renderFor(ctx, target, desired, options, chrt, values, upgraded.of)
}

// of changes the capabilities of a cluster to those after the upgrade.
func (u *Upgraded) of(capabilities *chartutil.Capabilities) error {
	version, err := chartutil.ParseKubeVersion(u.KubeVersion)
	if err != nil {
		return fmt.Errorf("the version of Kubernetes: %w", err)
	}
	if full, err := utilversion.ParseSemantic(u.KubeVersion); err == nil {
		version.Version = "v" + full.String() // ParseKubeVersion drops what vendors append.
	}
	capabilities.KubeVersion = *version
	isKept, hasKinds := map[string]bool{}, map[string]bool{}
	kept := chartutil.VersionSet{}
	for _, served := range capabilities.APIVersions {
		kind, ok := kindIn(served)
		if !ok {
			continue
		}
		groupVersion := kind.GroupVersion().String()
		hasKinds[groupVersion] = true
		if u.Serves(kind) {
			isKept[groupVersion] = true
			kept = append(kept, served)
		}
	}
	for _, served := range capabilities.APIVersions {
		// A version is served as long as one of its kinds is.
		if _, ok := kindIn(served); !ok && (isKept[served] || !hasKinds[served]) {
			kept = append(kept, served)
		}
	}
	capabilities.APIVersions = kept
	return nil
}

// ExcludingConstraint returns the kubeVersion of a chart if it excludes a version of Kubernetes; empty otherwise.
func ExcludingConstraint(chrt *chart.Chart, version string) string {
	if wanted := chrt.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, version) {
		return wanted
	}
	return ""
}

// kindIn returns the kind in an entry of a VersionSet: GROUP/VERSION/KIND or VERSION/KIND. It returns false for an
// entry without a kind. Only kinds have upper case letters.
func kindIn(served string) (schema.GroupVersionKind, bool) {
	at := strings.LastIndexByte(served, '/')
	if at < 0 || served[at+1:] == strings.ToLower(served[at+1:]) {
		return schema.GroupVersionKind{}, false
	}
	groupVersion, err := schema.ParseGroupVersion(served[:at])
	return groupVersion.WithKind(served[at+1:]), err == nil
}

// Present is what a cluster has now.
type Present struct {
	// KubeVersion is the version of Kubernetes.
	KubeVersion string
	// Serves reports whether the cluster serves an API.
	Serves func(schema.GroupVersionKind) bool

	// Revision is the Helm revision that the next upgrade starts from; 0 if the cluster does not have the release.
	Revision int
	// Chart is the version of its chart.
	Chart string
	// Objects are the objects of this revision, and Hooks those of its hooks, as they were rendered.
	Objects, Hooks []*unstructured.Unstructured
}

// Present returns the version of a cluster and the objects of a release. The error is an [*helmerr.Error].
func (c *Client) Present(ctx context.Context, target model.Target, namespace, name string) (Present, error) {
	s, err := c.open(ctx, target, model.Desired{Name: name, Namespace: namespace}, &helmerr.LogBuffer{})
	if err != nil {
		return Present{}, helmerr.Observing(err)
	}
	if s.records != nil {
		defer s.records.Release()
	}
	present, err := s.present(name)
	if err != nil {
		return Present{}, helmerr.Observing(err)
	}
	return present, nil
}

func (s *session) present(name string) (Present, error) {
	served := map[schema.GroupVersionKind]bool{}
	for _, one := range s.config.Capabilities.APIVersions {
		if kind, ok := kindIn(one); ok {
			served[kind] = true
		}
	}
	present := Present{KubeVersion: s.config.Capabilities.KubeVersion.Version,
		Serves: func(kind schema.GroupVersionKind) bool { return served[kind] }}
	record, err := s.previous(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return present, nil
	}
	if err == nil && record.Manifest == "" {
		record, err = s.config.Releases.Get(name, record.Version)
	}
	if err != nil {
		return present, fmt.Errorf("reading the present Helm revision: %w", err)
	}
	if record.Info != nil && record.Info.Status == release.StatusUninstalled {
		return present, nil
	}
	present.Revision = record.Version
	if record.Chart != nil && record.Chart.Metadata != nil {
		present.Chart = record.Chart.Metadata.Version
	}
	if present.Objects, err = apply.DecodeManifest([]byte(record.Manifest)); err != nil {
		return present, err
	}
	present.Hooks, err = objectsOfHooks(record.Hooks)
	return present, err
}

// objectsOfHooks returns the objects of hooks.
func objectsOfHooks(hooks []*release.Hook) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, hook := range hooks {
		objects, err := apply.DecodeManifest([]byte(hook.Manifest))
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// Parts returns the objects of the rendering, those of its hooks, and those in the folders crds.
func (d *DryRun) Parts() (objects, hooks, definitions []*unstructured.Unstructured, err error) {
	if objects, err = apply.DecodeManifest([]byte(d.Manifest)); err != nil {
		return nil, nil, nil, err
	}
	if hooks, err = objectsOfHooks(d.hooks); err != nil {
		return nil, nil, nil, err
	}
	for _, file := range d.CRDs {
		more, err := apply.DecodeManifest([]byte(file))
		if err != nil {
			return nil, nil, nil, err
		}
		definitions = append(definitions, more...)
	}
	return objects, hooks, definitions, nil
}

// definitionsResource are the CustomResourceDefinitions.
var definitionsResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// Definitions returns the CustomResourceDefinitions of kinds. Kinds that the cluster does not serve in any version, or
// that have no definition, are left out. It sends a request for each kind. The error is an [*helmerr.Error].
func (c *Client) Definitions(ctx context.Context, target model.Target, namespace string,
	kinds []schema.GroupKind,
) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	s, err := c.open(ctx, target, model.Desired{Namespace: namespace}, &helmerr.LogBuffer{})
	if err != nil {
		return nil, helmerr.Observing(err)
	}
	if s.records != nil {
		defer s.records.Release()
	}
	found, err := s.definitions(ctx, kinds)
	if err != nil {
		return nil, helmerr.Observing(err)
	}
	return found, nil
}

func (s *session) definitions(ctx context.Context, kinds []schema.GroupKind,
) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	config, err := s.config.RESTClientGetter.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	mapper, err := s.config.RESTClientGetter.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range kinds {
		mapping, err := mapper.RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		object, err := client.Resource(definitionsResource).Get(ctx, mapping.Resource.GroupResource().String(),
			metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the CustomResourceDefinition of %s: %w", kind, err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
			return nil, err
		}
		found = append(found, definition)
	}
	return found, nil
}
