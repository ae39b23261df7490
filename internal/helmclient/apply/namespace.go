// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

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

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Namespacer creates the namespace of a release right before its record is created. By then the chart is rendered and
// no object of another owner conflicts, so a chart that cannot be installed leaves no namespace behind. The engine
// learns that the namespace is missing from the search for conflicts, or from the rejected record; an existing
// namespace costs no request.
type Namespacer struct {
	Ctx     context.Context
	Clients *connections.Getter

	Name                string
	Create              bool
	Impersonated        bool
	Labels, Annotations map[string]string
	// done is set once labels and annotations are.
	done bool
}

// Check returns an error where the namespace is missing and is not to be created. It costs a request, and is for
// those who write something before the record.
func (n *Namespacer) Check() error {
	if n == nil || n.Name == "" || n.Create {
		return nil
	}
	namespaces, err := n.namespaces()
	if err != nil {
		return err
	}
	_, err = namespaces.Get(n.Ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return n.missing()
	}
	// Without the permission to read namespaces, the creation of the record shows whether the namespace exists.
	return nil
}

// Around calls makeRecord and sets up the namespace with its labels and annotations if needed.
func (n *Namespacer) Around(makeRecord func() error) error {
	if n == nil || n.Name == "" {
		return makeRecord()
	}
	if !n.done && len(n.Labels)+len(n.Annotations) > 0 {
		if err := n.setMetadata(); err != nil {
			return err
		}
		n.done = true
	}
	err := makeRecord()
	if !n.isMissing(err) {
		return n.explain(err)
	}
	if !n.Create {
		return n.missing()
	}
	if err := n.ensure(); err != nil {
		return err
	}
	return n.explain(makeRecord())
}

// EnsureKnownMissing creates the namespace, if that is desired and the action has just seen that it is missing. Without
// this, the cluster would first reject the record.
func (n *Namespacer) EnsureKnownMissing() error {
	if n.Name == "" || !n.Create || !n.Clients.IsMissing(n.Name) {
		return nil
	}
	return n.ensure()
}

// ensure creates the namespace unless it exists.
func (n *Namespacer) ensure() error {
	if err := n.make(); err != nil && !apierrors.IsAlreadyExists(err) {
		return n.explain(fmt.Errorf("creating the namespace %q: %w", n.Name, err))
	}
	return nil
}

// setMetadata sets labels and annotations of the namespace, which it creates first if that is desired.
func (n *Namespacer) setMetadata() error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": n.Labels,
		"annotations": n.Annotations}})
	if err != nil {
		return err
	}
	namespaces, err := n.namespaces()
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: model.FieldManager}
	_, err = namespaces.Patch(n.Ctx, n.Name, types.MergePatchType, patch, options)
	if apierrors.IsNotFound(err) {
		if !n.Create {
			return n.missing()
		}
		err = n.make()
		if apierrors.IsAlreadyExists(err) {
			_, err = namespaces.Patch(n.Ctx, n.Name, types.MergePatchType, patch, options)
		}
	}
	if err != nil {
		return n.explain(fmt.Errorf("setting labels and annotations of the namespace %q: %w", n.Name, err))
	}
	return nil
}

// make creates the namespace. The label is the one that Helm gives it.
func (n *Namespacer) make() error {
	labels := map[string]string{"name": n.Name}
	maps.Copy(labels, n.Labels)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels, Annotations: n.Annotations}}
	namespaces, err := n.namespaces()
	if err != nil {
		return err
	}
	_, err = namespaces.Create(n.Ctx, namespace, metav1.CreateOptions{FieldManager: model.FieldManager})
	return err
}

// namespaces returns a client whose results update what the action knows about objects.
func (n *Namespacer) namespaces() (corev1client.NamespaceInterface, error) {
	client, err := corev1client.NewForConfig(n.Clients.Config)
	if err != nil {
		return nil, err
	}
	return client.Namespaces(), nil
}

// IsMissing reports whether a record was refused because the namespace does not exist.
func (n *Namespacer) isMissing(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces" && details.Name == n.Name
}

func (n *Namespacer) missing() error {
	if n.Impersonated {
		return helmerr.New(nil,
			"the namespace %q does not exist: create it, or set install.createNamespace to true, which is needed with a "+
				"service account", n.Name)
	}
	return helmerr.New(nil,
		"the namespace %q does not exist and install.createNamespace is false: create the namespace, or set "+
			"install.createNamespace to true", n.Name)
}

// explain adds to an error what to do about a namespace that is being deleted.
func (n *Namespacer) explain(err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return helmerr.New(nil, "the namespace %q is being terminated: the action is tried again when it is gone", n.Name)
	}
	return err
}
