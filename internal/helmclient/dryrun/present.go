// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// Present describes a cluster and a release as they are now.
type Present struct {
	// KubeVersion is the version of Kubernetes.
	KubeVersion string
	// Serves reports whether the cluster serves an API.
	Serves func(schema.GroupVersionKind) bool

	// Revision is the Helm revision that the next upgrade starts from. It is 0 if the cluster does not have the
	// release.
	Revision int
	// Chart is the version of the chart of Revision.
	Chart string
}

// Present describes a cluster and a release. If the cluster has the release, Present calls use once with the rendered
// objects of the revision and of its hooks. use must not keep them: Present reserves memory for them only until use
// returns. The error is an [*helmerr.Error].
func (e *Engine) Present(ctx context.Context, target model.Target, namespace, name string,
	use func(objects, hooks []*unstructured.Unstructured),
) (Present, error) {
	return session.Read(ctx, e.memory, e.open, target, namespace, name, func(s *session.Session) (Present, error) {
		return reader{s}.present(name, use)
	})
}

func (s reader) present(name string, use func(objects, hooks []*unstructured.Unstructured)) (Present, error) {
	served := map[schema.GroupVersionKind]bool{}
	for _, one := range s.Config.Capabilities.APIVersions {
		if kind, ok := kindIn(one); ok {
			served[kind] = true
		}
	}
	present := Present{KubeVersion: s.Config.Capabilities.KubeVersion.Version,
		Serves: func(kind schema.GroupVersionKind) bool { return served[kind] }}
	record, err := s.Previous(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return present, nil
	}
	if err == nil && record.Manifest == "" {
		record, err = s.Config.Releases.Get(name, record.Version)
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
	objects, err := manifests.Decode(s.Memory, record.Manifest)
	if err != nil {
		return present, err
	}
	hooks, err := manifests.Decode(s.Memory, session.HookTexts(record.Hooks)...)
	if err != nil {
		return present, err
	}
	s.Memory.Settle()
	use(objects, hooks)
	return present, nil
}

var definitionsResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// Definitions returns the CustomResourceDefinitions of kinds. It omits a kind that the cluster does not serve in any
// version, and a kind without a definition. It sends a request for each kind. The error is an [*helmerr.Error].
func (e *Engine) Definitions(ctx context.Context, target model.Target, namespace string,
	kinds []schema.GroupKind,
) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return session.Read(ctx, e.memory, e.open, target, namespace, "",
		func(s *session.Session) ([]*apiextensionsv1.CustomResourceDefinition, error) {
			return reader{s}.definitions(kinds)
		})
}

func (s reader) definitions(kinds []schema.GroupKind) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	config, err := s.Config.RESTClientGetter.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	mapper, err := s.Config.RESTClientGetter.ToRESTMapper()
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
		object, err := client.Resource(definitionsResource).Get(s.Ctx, mapping.Resource.GroupResource().String(),
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
