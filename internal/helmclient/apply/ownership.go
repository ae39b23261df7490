// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"encoding/json"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kblabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Helm's own labels and annotations on the objects of a release.
const (
	HelmReleaseName      = inventory.HelmReleaseName
	helmReleaseNamespace = inventory.HelmReleaseNamespace
	helmManagedBy        = "app.kubernetes.io/managed-by"
	managedByHelm        = "Helm"
)

const (
	// ManyReads is the smallest number of objects of one kind in one namespace for which a list replaces single reads. A
	// list may contain many other objects of the kind, so few objects are cheaper to read one by one.
	ManyReads = 8
	// readsPerPage is the number of objects per list request.
	readsPerPage = 500
	// asMetadataList makes the API server return only the metadata of objects.
	asMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

// ReleaseName identifies a release within a cluster. The zero value is for actions without a release.
type ReleaseName struct{ Name, Namespace string }

// String returns the release as namespace/name.
func (r ReleaseName) String() string { return r.Namespace + "/" + r.Name }

// owns reports whether annotations name this release.
func (r ReleaseName) owns(annotations map[string]string) bool {
	return r.Name != "" && annotations[HelmReleaseName] == r.Name && annotations[helmReleaseNamespace] == r.Namespace
}

// other returns the other release that annotations name; empty if they name this release or none.
func (r ReleaseName) other(annotations map[string]string) string {
	name := cmp.Or(annotations[HelmReleaseName], r.Name)
	namespace := cmp.Or(annotations[helmReleaseNamespace], r.Namespace)
	if r.Name == "" || name == r.Name && namespace == r.Namespace {
		return ""
	}
	return namespace + "/" + name
}

// mark sets the labels and annotations with which Helm marks the objects of this release.
func (r ReleaseName) mark(object metav1.Object) {
	object.SetLabels(kblabels.Merge(object.GetLabels(), kblabels.Set{helmManagedBy: managedByHelm}))
	object.SetAnnotations(kblabels.Merge(object.GetAnnotations(),
		kblabels.Set{HelmReleaseName: r.Name, helmReleaseNamespace: r.Namespace}))
}

// observedState is the state of an object in the cluster.
type observedState struct {
	uid types.UID
	// version is the resource version.
	version     string
	annotations map[string]string
	// isLabelled means that the object has the label of Helm.
	isLabelled bool
	// created is when the object was created.
	created time.Time
	// isMade means that HelmOp created the object, according to its managed fields.
	isMade bool
}

func stateOf(object *metav1.PartialObjectMetadata) *observedState {
	return &observedState{uid: object.UID, version: object.ResourceVersion, annotations: object.Annotations,
		isLabelled: object.Labels[helmManagedBy] == managedByHelm, created: object.CreationTimestamp.Time,
		isMade: isMadeByHelmOp(object)}
}

// isMadeByHelmOp reports whether HelmOp wrote an object, and no other client wrote it when it was created.
func isMadeByHelmOp(object *metav1.PartialObjectMetadata) bool {
	isMade := false
	for _, entry := range object.ManagedFields {
		switch {
		case entry.Manager == model.FieldManager:
			isMade = true
		case entry.Subresource == "" && (entry.Time == nil || !entry.Time.After(object.CreationTimestamp.Time)):
			return false
		}
	}
	return isMade
}

// read reads the metadata of an object from the cluster.
func (k *Client) read(info *resource.Info) (*observedState, error) {
	object := &metav1.PartialObjectMetadata{}
	if err := k.readMetadata(k.readRequest(info).Name(info.Name).SetHeader("Accept", AsMetadata), object); err != nil {
		return nil, err
	}
	return stateOf(object), nil
}

func (k *Client) readRequest(info *resource.Info) *rest.Request {
	return info.Client.Get().
		NamespaceIfScoped(info.Namespace, info.Mapping.Scope.Name() == meta.RESTScopeNameNamespace).
		Resource(info.Mapping.Resource.Resource)
}

// readTogether lists objects of one kind if this saves requests. The keys come from observedKey. Objects that are not
// in the result must be read one by one. Such an object may not exist or may lack Helm's label, or the permission to
// list the objects is missing.
func (k *Client) readTogether(resources kube.ResourceList) map[string]*observedState {
	byNamespace := map[string]kube.ResourceList{}
	for _, info := range resources {
		byNamespace[info.Namespace] = append(byNamespace[info.Namespace], info)
	}
	observed := map[string]*observedState{}
	for _, infos := range byNamespace {
		if len(infos) >= ManyReads {
			k.listNamespace(infos, observed)
		}
	}
	return observed
}

// listNamespace lists the objects of one kind in one namespace and adds them to observed.
func (k *Client) listNamespace(infos kube.ResourceList, observed map[string]*observedState) {
	names := map[string]bool{}
	for _, info := range infos {
		names[info.Name] = true
	}
	options := metav1.ListOptions{LabelSelector: kblabels.Set{helmManagedBy: managedByHelm}.String(), Limit: readsPerPage}
	// If other releases have many objects of the kind, more pages would cost more requests than they save.
	for range 2 + len(infos)/readsPerPage {
		list := &metav1.PartialObjectMetadataList{}
		request := k.readRequest(infos[0]).VersionedParams(&options, scheme.ParameterCodec).SetHeader("Accept",
			asMetadataList)
		if err := k.readMetadata(request, list); err != nil {
			return
		}
		for i := range list.Items {
			if object := &list.Items[i]; names[object.Name] {
				observed[observedKey(infos[0].Namespace, object.Name)] = stateOf(object)
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return
		}
	}
}

func observedKey(namespace, name string) string { return namespace + "/" + name }

// readMetadata sends a request and decodes the response. Its error is the error response of the cluster, even if the
// response is not an API object.
func (k *Client) readMetadata(request *rest.Request, into any) error {
	result := request.Do(k.Ctx)
	if err := result.Error(); err != nil {
		return err
	}
	data, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return helmerr.New(helmerr.ErrUnreachable, "the response of the cluster cannot be decoded")
	}
	return nil
}
