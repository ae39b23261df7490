// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectinfo

import (
	"context"
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

const (
	// ManyReads is the smallest number of objects of one kind in one namespace for which a list replaces single reads. A
	// list may contain many other objects of the kind, so few objects are cheaper to read one by one.
	ManyReads = 8
	// ReadsPerPage is the number of objects per list request.
	ReadsPerPage = 500
)

// State is the state of an object in the cluster.
type State struct {
	UID types.UID
	// Version is the resource version.
	Version     string
	Annotations map[string]string
	// IsLabelled means that the object has the label of Helm.
	IsLabelled bool
	// Created is when the object was created.
	Created time.Time
	// IsMade means that HelmOp created the object, and did not only take it over, according to its managed fields.
	IsMade bool
}

// StateOf returns the state of an object from its metadata.
func StateOf(object *metav1.PartialObjectMetadata) *State {
	return &State{UID: object.UID, Version: object.ResourceVersion, Annotations: object.Annotations,
		IsLabelled: object.Labels[inventory.ManagedByLabel] == inventory.ManagedByHelm,
		Created:    object.CreationTimestamp.Time, IsMade: isMadeByHelmOp(object)}
}

// Read reads the metadata of an object from the cluster.
func Read(ctx context.Context, info *resource.Info) (*State, error) {
	object := &metav1.PartialObjectMetadata{}
	request := ReadRequest(info).Name(info.Name).SetHeader("Accept", model.AcceptMetadata)
	if err := readMetadata(ctx, request, object); err != nil {
		return nil, err
	}
	return StateOf(object), nil
}

// ReadRequest returns a request for the objects of the kind and the namespace of an object.
func ReadRequest(info *resource.Info) *rest.Request {
	return info.Client.Get().
		NamespaceIfScoped(info.Namespace, info.Mapping.Scope.Name() == meta.RESTScopeNameNamespace).
		Resource(info.Mapping.Resource.Resource)
}

// States are the states of objects of one kind.
type States map[string]*State

// Of returns the state of an object; nil if it is not known.
func (s States) Of(info *resource.Info) *State { return s[stateKey(info.Namespace, info.Name)] }

func stateKey(namespace, name string) string { return namespace + "/" + name }

// ReadTogether lists objects of one kind if this saves requests. Objects that are not in the result must be read one by
// one. Such an object may not exist or may lack Helm's label, or the permission to list the objects is missing.
func ReadTogether(ctx context.Context, resources kube.ResourceList) States {
	byNamespace := map[string]kube.ResourceList{}
	for _, info := range resources {
		byNamespace[info.Namespace] = append(byNamespace[info.Namespace], info)
	}
	observed := States{}
	for _, infos := range byNamespace {
		if len(infos) >= ManyReads {
			observed.listNamespace(ctx, infos)
		}
	}
	return observed
}

// listNamespace lists the objects of one kind in one namespace and adds their states.
func (s States) listNamespace(ctx context.Context, infos kube.ResourceList) {
	names := map[string]bool{}
	for _, info := range infos {
		names[info.Name] = true
	}
	options := metav1.ListOptions{Limit: ReadsPerPage,
		LabelSelector: kblabels.Set{inventory.ManagedByLabel: inventory.ManagedByHelm}.String()}
	// If other releases have many objects of the kind, more pages would cost more requests than they save.
	for range 2 + len(infos)/ReadsPerPage {
		list := &metav1.PartialObjectMetadataList{}
		request := ReadRequest(infos[0]).VersionedParams(&options, scheme.ParameterCodec).SetHeader("Accept",
			model.AcceptMetadataList)
		if err := readMetadata(ctx, request, list); err != nil {
			return
		}
		for i := range list.Items {
			if object := &list.Items[i]; names[object.Name] {
				s[stateKey(infos[0].Namespace, object.Name)] = StateOf(object)
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return
		}
	}
}

// readMetadata sends a request and decodes the response. Its error is the error response of the cluster, even if the
// response is not an API object.
func readMetadata(ctx context.Context, request *rest.Request, into any) error {
	result := request.Do(ctx)
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
