/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// namespacer sees to the namespace of a release when its record is about to be made: by then the chart is rendered and
// nobody else's object is in the way, so a chart that cannot be installed leaves no namespace behind. That it is
// missing is known from the search for objects in the way, or learned from the refusal of the record: in a namespace that exists this
// costs no request.
type namespacer struct {
	ctx     context.Context
	clients *getter

	name                string
	create              bool
	impersonated        bool
	labels, annotations map[string]string
	// done is set once labels and annotations are.
	done bool
}

// prepareNamespace tells how the namespace of the release is to be; create says that this action may create it. It sends no
// request.
func (s *session) prepareNamespace(desired Desired, o InstallOptions, create bool) {
	n := s.namespace
	if n == nil {
		return
	}
	n.name = desired.Namespace
	wanted := !n.impersonated
	if o.CreateNamespace != nil {
		wanted = *o.CreateNamespace
	}
	n.create = create && wanted
	n.labels, n.annotations = o.NamespaceLabels, o.NamespaceAnnotations
}

// check returns an error where the namespace is missing and is not to be created. It costs a request, and is for
// those who write something before the record.
func (n *namespacer) check() error {
	if n == nil || n.name == "" || n.create {
		return nil
	}
	namespaces, err := n.namespaces()
	if err != nil {
		return err
	}
	_, err = namespaces.Get(n.ctx, n.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return n.missing()
	}
	// Whoever may not read namespaces learns it from the record.
	return nil
}

// around calls makeRecord, with the namespace and its labels and annotations as they are to be.
func (n *namespacer) around(makeRecord func() error) error {
	if n == nil || n.name == "" {
		return makeRecord()
	}
	if !n.done && len(n.labels)+len(n.annotations) > 0 {
		if err := n.setMetadata(); err != nil {
			return err
		}
		n.done = true
	}
	err := makeRecord()
	if !n.isMissing(err) {
		return n.explain(err)
	}
	if !n.create {
		return n.missing()
	}
	if err := n.ensure(); err != nil {
		return err
	}
	return n.explain(makeRecord())
}

// ensureKnownMissing creates the namespace if it is to be, and the action has just seen that it is missing: without this, the record
// would be refused first.
func (n *namespacer) ensureKnownMissing() error {
	if n.name == "" || !n.create || !n.clients.isMissing(n.name) {
		return nil
	}
	return n.ensure()
}

// ensure creates the namespace unless it exists.
func (n *namespacer) ensure() error {
	if err := n.make(); err != nil && !apierrors.IsAlreadyExists(err) {
		return n.explain(fmt.Errorf("creating the namespace %q: %w", n.name, err))
	}
	return nil
}

// setMetadata sets labels and annotations, on a namespace that it creates where that is wanted.
func (n *namespacer) setMetadata() error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": n.labels, "annotations": n.annotations}})
	if err != nil {
		return err
	}
	namespaces, err := n.namespaces()
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	_, err = namespaces.Patch(n.ctx, n.name, types.MergePatchType, patch, options)
	if apierrors.IsNotFound(err) {
		if !n.create {
			return n.missing()
		}
		err = n.make()
		if apierrors.IsAlreadyExists(err) {
			_, err = namespaces.Patch(n.ctx, n.name, types.MergePatchType, patch, options)
		}
	}
	if err != nil {
		return n.explain(fmt.Errorf("setting labels and annotations of the namespace %q: %w", n.name, err))
	}
	return nil
}

// make creates the namespace. The label is the one that Helm gives it.
func (n *namespacer) make() error {
	labels := map[string]string{"name": n.name}
	maps.Copy(labels, n.labels)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: labels, Annotations: n.annotations}}
	namespaces, err := n.namespaces()
	if err != nil {
		return err
	}
	_, err = namespaces.Create(n.ctx, namespace, metav1.CreateOptions{FieldManager: fieldManager})
	return err
}

// namespaces returns a client that what is known of objects during the action learns from.
func (n *namespacer) namespaces() (corev1client.NamespaceInterface, error) {
	client, err := corev1client.NewForConfig(n.clients.config)
	if err != nil {
		return nil, err
	}
	return client.Namespaces(), nil
}

// isMissing reports whether a record was refused because the namespace does not exist.
func (n *namespacer) isMissing(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces" && details.Name == n.name
}

func (n *namespacer) missing() error {
	if n.impersonated {
		return errorOfKind(nil, "the namespace %q does not exist: create it; with a service account, it is created only if install.createNamespace is true", n.name)
	}
	return errorOfKind(nil, "the namespace %q does not exist and install.createNamespace is false: create it, or set that to true", n.name)
}

// explain says of a namespace that is being deleted what to do.
func (n *namespacer) explain(err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return errorOfKind(nil, "the namespace %q is being terminated: wait until it is gone, this is tried again", n.name)
	}
	return err
}
