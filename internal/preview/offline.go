// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
)

// inMemory is the resourceVersion of objects that were never in an API server.
const inMemory = "0"

// Objects is a reader of objects in memory, which replaces the management cluster. It can get objects, but not list
// them.
type Objects struct {
	scheme  *runtime.Scheme
	objects []*unstructured.Unstructured
}

// NewObjects returns a reader of objects. The scheme must contain the Go types that are read.
func NewObjects(scheme *runtime.Scheme, objects []*unstructured.Unstructured) *Objects {
	return &Objects{scheme: scheme, objects: objects}
}

// Get implements client.Reader. It finds an object in any version of its kind.
func (o *Objects) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(object, o.scheme)
	if err != nil {
		return err
	}
	if kind.Kind == "CustomResourceDefinition" {
		return o.definition(key, object)
	}
	for _, known := range o.objects {
		if known.GroupVersionKind().GroupKind() == kind.GroupKind() && client.ObjectKeyFromObject(known) == key {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(known.DeepCopy().Object, object); err != nil {
				return err
			}
			storeStrings(object)
			if object.GetResourceVersion() == "" {
				object.SetResourceVersion(inMemory) // An object without a resourceVersion counts as missing.
			}
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.String())
}

// storeStrings moves the stringData of a Secret to its data, as the API server does.
func storeStrings(object client.Object) {
	secret, ok := object.(*corev1.Secret)
	if !ok || len(secret.StringData) == 0 {
		return
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, text := range secret.StringData {
		secret.Data[key] = []byte(text)
	}
	secret.StringData = nil
}

// definition returns the metadata of a CustomResourceDefinition. Cluster API reads from it in which version it must
// read a kind. The result names the version of the object in memory.
func (o *Objects) definition(key client.ObjectKey, into client.Object) error {
	_, group, _ := strings.Cut(key.Name, ".")
	for _, known := range o.objects {
		if kind := known.GroupVersionKind(); kind.Group == group {
			into.SetName(key.Name)
			into.SetLabels(map[string]string{clusterv1.GroupVersion.String(): kind.Version})
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: "apiextensions.k8s.io",
		Resource: "customresourcedefinitions"}, key.Name)
}

// List implements client.Reader.
func (o *Objects) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("objects in memory cannot be listed")
}

// RenderOffline renders the chart of a release as an installation, without a connection to its Cluster. If kubeVersion
// is empty, it uses the version in the Cluster object. apiVersions are the API versions that the cluster serves in
// addition to those of Kubernetes.
func (p *Previewer) RenderOffline(ctx context.Context, release *Release, kubeVersion string,
	apiVersions []string,
) (dryrun.Result, error) {
	chart, err := p.chart(ctx, release)
	if err != nil {
		return dryrun.Result{}, err
	}
	if kubeVersion == "" {
		kubeVersion = release.kubernetesVersion
	}
	desired, options := p.desired(ctx, release)
	return p.Engine.RenderOffline(ctx, desired, options, chart, release.Values,
		dryrun.Offline{KubeVersion: kubeVersion, APIVersions: apiVersions})
}
