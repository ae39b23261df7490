// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"bytes"
	"encoding/json"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/namespacing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Namespace plans the creation of the release's namespace, and its labels and annotations.
func (p *planner) Namespace(n *namespacing.Namespacer) error {
	hasMetadata := len(n.Labels)+len(n.Annotations) > 0
	if !n.Create && !hasMetadata {
		return nil
	}
	namespaces, err := n.Namespaces()
	if err != nil {
		return err
	}
	_, err = namespaces.Get(n.Ctx, n.Name, metav1.GetOptions{})
	isMissing := apierrors.IsNotFound(err)
	if err != nil && !isMissing {
		// Without the permission to read namespaces, the objects show whether the namespace exists.
		return p.unlessAnswered(err)
	}
	switch {
	case !isMissing && !hasMetadata:
		return nil
	case isMissing && n.Create:
		p.NewNamespaces[n.Name] = true
	case isMissing:
		p.add(&model.Change{Kind: model.ChangeCreate, Reason: model.ReasonRejected, Message: n.MissingError().Error(),
			Ref: inventory.Ref{Version: "v1", Kind: "Namespace", Name: n.Name}})
		return nil
	}
	namespace := n.Object()
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	data, err := json.Marshal(namespace)
	if err != nil {
		return err
	}
	return p.Missing(data, n.WithMetadata)
}

// Missing plans an object in the folder crds. The object is given as JSON. The plan creates the object if it does not
// exist. Without replace, an existing object is kept. With replace, the result of replace takes the place of an
// existing object.
func (p *planner) Missing(data []byte, replace func(live []byte) ([]byte, error)) error {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		return err
	}
	kind := object.GroupVersionKind()
	mapper, err := p.Clients.ToRESTMapper()
	if err != nil {
		return err
	}
	_, err = mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		change := p.unserved(kind)
		change.Ref, change.After = inventory.Of(object), object.Object
		p.add(&change)
		return nil
	}
	if err != nil {
		return err
	}
	infos, err := p.Client.Client.Build(bytes.NewReader(data), false)
	if err != nil {
		return err
	}
	for _, info := range infos {
		change, err := p.missing(info, replace)
		if err != nil {
			return err
		}
		p.add(change)
	}
	return nil
}

func (p *planner) missing(info *resource.Info, replace func(live []byte) ([]byte, error)) (*model.Change, error) {
	change := &model.Change{Ref: objectinfo.RefOf(info), Kind: model.ChangeCreate}
	helper := resource.NewHelper(info.Client, info.Mapping).WithFieldManager(model.FieldManager)
	live, err := helper.Get(info.Namespace, info.Name)
	switch {
	case apierrors.IsNotFound(err):
		live, err = helper.Create(info.Namespace, true, info.Object)
	case err != nil:
	case replace == nil:
		change.Kind = ""
		return change, nil
	default:
		change.Kind = model.ChangeUpdate
		live, err = p.replacement(change, helper, live, replace)
	}
	if err != nil {
		return p.refused(change, info, err)
	}
	if change.After, err = runtime.DefaultUnstructuredConverter.ToUnstructured(live); err != nil {
		return nil, err
	}
	if reflect.DeepEqual(withoutBookkeeping(change.Before), withoutBookkeeping(change.After)) {
		change.Kind = ""
	}
	return change, nil
}

// replacement returns the object after the replacement of a live object.
func (p *planner) replacement(change *model.Change, helper *resource.Helper, live runtime.Object,
	replace func(live []byte) ([]byte, error),
) (runtime.Object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return nil, err
	}
	change.Before = content
	before := &unstructured.Unstructured{Object: content}
	data, err := before.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if data, err = replace(data); err != nil {
		return nil, err
	}
	after := &unstructured.Unstructured{}
	if err := after.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	return helper.Replace(before.GetNamespace(), before.GetName(), false, after)
}
