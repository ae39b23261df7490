// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
)

// unknownKinds returns the kinds that could not be mapped. It returns none if the error also has another cause.
func unknownKinds(err error) []schema.GroupVersionKind {
	if err == nil {
		return nil
	}
	parts := []error{err}
	if aggregate := utilerrors.Aggregate(nil); errors.As(err, &aggregate) {
		parts = utilerrors.Flatten(aggregate).Errors()
	}
	var unknown []schema.GroupVersionKind
	for _, part := range parts {
		var noMatch *meta.NoKindMatchError
		if !errors.As(part, &noMatch) {
			return nil
		}
		version := ""
		if len(noMatch.SearchedVersions) > 0 {
			version = noMatch.SearchedVersions[0]
		}
		if kind := noMatch.GroupKind.WithVersion(version); !slices.Contains(unknown, kind) {
			unknown = append(unknown, kind)
		}
	}
	return unknown
}

// UnservedError returns an error with the kinds that the cluster does not serve. If the cluster meanwhile serves all of
// them, the error has the kind [helmerr.ErrUnreachable], so that the action is tried again.
func (k *Client) UnservedError(unknown []schema.GroupVersionKind) error {
	var missing []string
	for _, kind := range unknown {
		served, err := k.Serves(kind)
		if err != nil {
			return err
		}
		if !served {
			missing = append(missing, fmt.Sprintf("%s of %s", kind.Kind, kind.GroupVersion()))
		}
	}
	if len(missing) == 0 {
		return helmerr.New(helmerr.ErrUnreachable,
			"the cluster has only just begun to serve %s of %s: the action is tried again", unknown[0].Kind,
			unknown[0].GroupVersion())
	}
	slices.Sort(missing)
	return helmerr.New(helmerr.ErrKindNotServed,
		"the cluster does not serve %s: install the CustomResourceDefinition, or check that the chart supports this "+
			"version of Kubernetes",
		strings.Join(missing, ", "))
}

// Serves reports whether the cluster serves a kind. It sends a request. If an API service does not respond, Serves
// returns an error, because objects of the kind may exist.
func (k *Client) Serves(kind schema.GroupVersionKind) (bool, error) {
	client, err := k.Clients.Raw()
	if err != nil {
		return false, err
	}
	path := "/apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		path = "/api/" + kind.Version
	}
	data, err := client.Get().AbsPath(path).Do(k.Ctx).Raw()
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, helmerr.New(helmerr.ErrUnreachable, "discovering whether the cluster serves %s of %s: %s", kind.Kind,
			kind.GroupVersion(), err)
	}
	list := metav1.APIResourceList{}
	if err := json.Unmarshal(data, &list); err != nil {
		return false, helmerr.New(helmerr.ErrUnreachable,
			"the response of the cluster to the discovery of %s cannot be decoded", kind.GroupVersion())
	}
	return slices.ContainsFunc(list.APIResources,
		func(resource metav1.APIResource) bool { return resource.Kind == kind.Kind }), nil
}

// BuildServed builds a recorded manifest without the objects of kinds that the cluster no longer serves. If the cluster
// serves the kind in another version, the object is built in that version, because it is the same object.
func (k *Client) BuildServed(manifest []byte) (kube.ResourceList, error) {
	objects, err := manifests.DecodeText(manifest)
	if err != nil {
		return nil, err
	}
	decided := map[schema.GroupVersionKind]schema.GroupVersionKind{}
	var kept bytes.Buffer
	for _, object := range objects {
		kind := object.GroupVersionKind()
		servedAs, ok := decided[kind]
		if !ok {
			if servedAs, err = k.servedAs(kind); err != nil {
				return nil, err
			}
			decided[kind] = servedAs
		}
		if servedAs.Empty() {
			k.Log("skipping %s %s: the cluster no longer serves %s", kind.Kind, object.GetName(), kind.GroupVersion())
			continue
		}
		object.SetGroupVersionKind(servedAs)
		data, err := object.MarshalJSON()
		if err != nil {
			return nil, err
		}
		kept.WriteString("---\n")
		kept.Write(data)
	}
	return k.Client.Build(&kept, false)
}

// servedAs returns the kind in a version that the cluster serves. It returns an empty kind if the cluster does not
// serve the kind.
func (k *Client) servedAs(kind schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	mapper, err := k.Clients.ToRESTMapper()
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	_, err = mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err == nil {
		return kind, nil
	}
	if !meta.IsNoMatchError(err) {
		return schema.GroupVersionKind{}, err
	}
	served, err := k.Serves(kind)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	if served {
		return schema.GroupVersionKind{},
			helmerr.New(helmerr.ErrUnreachable, "the cluster has only just begun to serve %s of %s: the action is tried again",
				kind.Kind, kind.GroupVersion())
	}
	mapping, err := mapper.RESTMapping(kind.GroupKind())
	if meta.IsNoMatchError(err) {
		return schema.GroupVersionKind{}, nil
	}
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return mapping.GroupVersionKind, nil
}
