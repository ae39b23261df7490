// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"encoding/json"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kblabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// Helm's own marks on the objects of a release.
const (
	HelmReleaseName      = "meta.helm.sh/release-name"
	helmReleaseNamespace = "meta.helm.sh/release-namespace"
	helmManagedBy        = "app.kubernetes.io/managed-by"
)

const (
	// ManyLooks is the number of objects of one kind in one namespace from which they are looked at together. There may be
	// others of the kind, so a few are cheaper looked at one by one.
	ManyLooks = 8
	// looksPerPage is the number of objects that one request looks at.
	looksPerPage = 500
	// asMetadataList makes the API server return only the metadata of objects.
	asMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

// ReleaseName names a release. The zero value is for actions that have none.
type ReleaseName struct{ Name, Namespace string }

// owns reports whether annotations name this release.
func (r ReleaseName) owns(annotations map[string]string) bool {
	return r.Name != "" && annotations[HelmReleaseName] == r.Name && annotations[helmReleaseNamespace] == r.Namespace
}

// other returns the other release that annotations name, "" where they name this one or none.
func (r ReleaseName) other(annotations map[string]string) string {
	name := cmp.Or(annotations[HelmReleaseName], r.Name)
	namespace := cmp.Or(annotations[helmReleaseNamespace], r.Namespace)
	if r.Name == "" || name == r.Name && namespace == r.Namespace {
		return ""
	}
	return namespace + "/" + name
}

// sight is the state of an object as it was read from the cluster.
type sight struct {
	uid         types.UID
	annotations map[string]string
}

// look asks the cluster for the metadata of an object.
func (k *Client) look(info *resource.Info) (*sight, error) {
	object := &metav1.PartialObjectMetadata{}
	if err := k.readMetadata(k.lookRequest(info).Name(info.Name).SetHeader("Accept", AsMetadata), object); err != nil {
		return nil, err
	}
	return &sight{uid: object.UID, annotations: object.Annotations}, nil
}

func (k *Client) lookRequest(info *resource.Info) *rest.Request {
	return info.Client.Get().
		NamespaceIfScoped(info.Namespace, info.Mapping.Scope.Name() == meta.RESTScopeNameNamespace).
		Resource(info.Mapping.Resource.Resource)
}

// survey reads objects of one kind together if that saves requests. Objects that it does not find must be read
// individually: they may not exist, lack Helm's label, or not be permitted to be listed.
func (k *Client) survey(resources kube.ResourceList) map[string]*sight {
	byNamespace := map[string]kube.ResourceList{}
	for _, info := range resources {
		byNamespace[info.Namespace] = append(byNamespace[info.Namespace], info)
	}
	seen := map[string]*sight{}
	for _, infos := range byNamespace {
		if len(infos) >= ManyLooks {
			k.surveyNamespace(infos, seen)
		}
	}
	return seen
}

func (k *Client) surveyNamespace(infos kube.ResourceList, seen map[string]*sight) {
	wanted := map[string]bool{}
	for _, info := range infos {
		wanted[info.Name] = true
	}
	options := metav1.ListOptions{LabelSelector: kblabels.Set{helmManagedBy: "Helm"}.String(), Limit: looksPerPage}
	// Where others have more objects than this, pages would cost more than they save.
	for range 2 + len(infos)/looksPerPage {
		list := &metav1.PartialObjectMetadataList{}
		request := k.lookRequest(infos[0]).VersionedParams(&options, scheme.ParameterCodec).SetHeader("Accept",
			asMetadataList)
		if err := k.readMetadata(request, list); err != nil {
			return
		}
		for i := range list.Items {
			if object := &list.Items[i]; wanted[object.Name] {
				seen[sightKey(infos[0].Namespace, object.Name)] = &sight{uid: object.UID, annotations: object.Annotations}
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return
		}
	}
}

func sightKey(namespace, name string) string { return namespace + "/" + name }

// readMetadata sends a request and decodes the response. Its error is the response of the cluster, even if that is not
// an API object.
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
