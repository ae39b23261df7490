// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package namespacing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Namespacer creates the namespace of a release right before its record is created. At that time, the chart is rendered
// and Helm has found no conflicting object. So most charts that cannot be installed leave no namespace behind. Only for
// objects in the folder crds of the chart, Namespacer creates the namespace earlier: the action creates these objects
// before it searches for conflicts.
//
// An existing namespace whose labels and annotations are not set needs no additional request. The search for conflicts,
// the creation in a first installation (see AssumeMissing) or the rejected record shows whether the namespace is
// missing.
type Namespacer struct {
	Ctx     context.Context
	Clients *connections.Getter

	// Name is the name of the namespace.
	Name string
	// Create permits to create the namespace.
	Create bool
	// Impersonated means that the action impersonates a user.
	Impersonated bool
	// Labels and Annotations are set on the namespace.
	Labels, Annotations map[string]string
	// Manifest is the manifest of the action, which may have the namespace; nil if there is none.
	Manifest Manifest
	// done means that labels and annotations are set.
	done bool
	// assumed means that the namespace is assumed to be missing, see AssumeMissing.
	assumed bool
}

// Manifest is the manifest of an installation.
type Manifest interface {
	// Plans reports whether the installation will create a certain object.
	Plans(is func(*resource.Info) bool) bool
	// Mark sets the labels and annotations with which Helm marks the objects of the release.
	Mark(object metav1.Object)
	// NoteMade notes that the action has created this object already.
	NoteMade(is func(*resource.Info) bool)
}

// ErrExists means that a namespace that was assumed to be missing may exist. No record was created.
var ErrExists = errors.New("the namespace may exist already")

// Prepare sets the desired state of the release's namespace. If create is true, the action may create the namespace.
func (n *Namespacer) Prepare(desired model.Desired, options model.InstallOptions, create bool) {
	n.Name = desired.Namespace
	desiredCreate := !n.Impersonated
	if options.CreateNamespace != nil {
		desiredCreate = *options.CreateNamespace
	}
	n.Create = create && desiredCreate
	n.Labels, n.Annotations = options.NamespaceLabels, options.NamespaceAnnotations
}

// MayBeMissing reports whether the namespace may be assumed to be missing: the action may create it, and it is not
// known to exist. It sends no request.
func (n *Namespacer) MayBeMissing() bool {
	if n == nil || n.Name == "" || !n.Create || n.Impersonated || len(n.Labels)+len(n.Annotations) > 0 {
		return false
	}
	if n.Name == metav1.NamespaceDefault || strings.HasPrefix(n.Name, "kube-") {
		// Each cluster has these namespaces.
		return false
	}
	return !n.Clients.Conn.Namespaces.Has(n.Name)
}

// AssumeMissing makes the search for conflicting objects assume that the namespace does not exist, unless
// [Namespacer.MayBeMissing] is false. Objects in a missing namespace need no search. The creation of the namespace,
// right before the record, shows whether the assumption is true. If it fails, the error of the record is ErrExists, and
// the caller repeats the action. AssumeMissing returns false if the namespace is not assumed to be missing.
func (n *Namespacer) AssumeMissing() bool {
	if !n.MayBeMissing() {
		return false
	}
	n.assumed = n.Clients.AssumeMissing(n.Name)
	return n.assumed
}

// Check returns an error if the namespace is missing and must not be created. It sends a request. Call it before any
// write that comes before the record.
func (n *Namespacer) Check() error {
	if n == nil || n.Name == "" || n.Create {
		return nil
	}
	namespaces, err := n.Namespaces()
	if err != nil {
		return err
	}
	_, err = namespaces.Get(n.Ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return n.MissingError()
	}
	// Without the permission to read namespaces, only the creation of the record shows whether the namespace exists.
	return nil
}

// Around calls create, which creates a record or another object. Around creates the namespace, and sets its labels and
// annotations, if necessary. If create fails because the namespace was missing, Around calls it again.
func (n *Namespacer) Around(create func() error) error {
	if n == nil || n.Name == "" {
		return create()
	}
	if !n.done && len(n.Labels)+len(n.Annotations) > 0 {
		if err := n.setMetadata(); err != nil {
			return err
		}
		n.done = true
	}
	err := create()
	if !n.isMissing(err) {
		return n.explain(err)
	}
	if !n.Create {
		return n.MissingError()
	}
	if err := n.ensure(); err != nil {
		return err
	}
	return n.explain(create())
}

// EnsureKnownMissing creates the namespace if Create is set and the action has just observed that the namespace is
// missing. Otherwise, the cluster would first reject the record.
func (n *Namespacer) EnsureKnownMissing() error {
	if n.Name == "" || !n.Create || !n.assumed && !n.Clients.IsMissing(n.Name) {
		return nil
	}
	return n.ensure()
}

// ensure creates the namespace unless it exists. It returns ErrExists if the namespace was assumed to be missing and
// the cluster refuses to create it.
func (n *Namespacer) ensure() error {
	err := n.make()
	if n.assumed {
		n.assumed = false
		if apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) {
			// The next action in this namespace must not assume again that the namespace is missing.
			n.Clients.Conn.Namespaces.Add(n.Name)
		}
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			return ErrExists
		}
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return n.explain(fmt.Errorf("creating the namespace %q: %w", n.Name, err))
	}
	return nil
}

// setMetadata sets the labels and annotations of the namespace. If the namespace is missing and Create is set, it
// creates the namespace.
func (n *Namespacer) setMetadata() error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": n.Labels,
		"annotations": n.Annotations}})
	if err != nil {
		return err
	}
	namespaces, err := n.Namespaces()
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: model.FieldManager}
	_, err = namespaces.Patch(n.Ctx, n.Name, types.MergePatchType, patch, options)
	if apierrors.IsNotFound(err) {
		if !n.Create {
			return n.MissingError()
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

// make creates the namespace.
func (n *Namespacer) make() error {
	namespaces, err := n.Namespaces()
	if err != nil {
		return err
	}
	namespace := n.Object()
	hasNamespace := n.Manifest != nil && n.Manifest.Plans(n.is)
	if hasNamespace {
		// If the action fails, the next action finds an object of the release.
		n.Manifest.Mark(namespace)
	}
	_, err = namespaces.Create(n.Ctx, namespace, metav1.CreateOptions{FieldManager: model.FieldManager})
	if err == nil && hasNamespace {
		n.Manifest.NoteMade(n.is)
	}
	return err
}

// is reports whether an object of the manifest is the namespace.
func (n *Namespacer) is(info *resource.Info) bool {
	return info.Mapping.GroupVersionKind.GroupKind() == schema.GroupKind{Kind: "Namespace"} && info.Name == n.Name
}

// Object returns the namespace to create, with the label "name" as Helm does.
func (n *Namespacer) Object() *corev1.Namespace {
	labels := map[string]string{"name": n.Name}
	maps.Copy(labels, n.Labels)
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels, Annotations: n.Annotations}}
}

// WithMetadata returns a live namespace with the labels and annotations, as JSON.
func (n *Namespacer) WithMetadata(live []byte) ([]byte, error) {
	namespace := &corev1.Namespace{}
	if err := json.Unmarshal(live, namespace); err != nil {
		return nil, err
	}
	for key, value := range n.Labels {
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, key, value)
	}
	for key, value := range n.Annotations {
		metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, key, value)
	}
	return json.Marshal(namespace)
}

// Namespaces returns a client that uses the read cache of the action.
func (n *Namespacer) Namespaces() (corev1client.NamespaceInterface, error) {
	client, err := corev1client.NewForConfig(n.Clients.Config)
	if err != nil {
		return nil, err
	}
	return client.Namespaces(), nil
}

// isMissing reports whether an object was rejected because the namespace does not exist.
func (n *Namespacer) isMissing(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces" && details.Name == n.Name
}

// MissingError returns the error for a namespace that is missing and must not be created.
func (n *Namespacer) MissingError() error {
	if n.Impersonated {
		return helmerr.New(nil,
			"the namespace %q does not exist: create it, or set install.createNamespace to true, which is needed with a "+
				"service account", n.Name)
	}
	return helmerr.New(nil,
		"the namespace %q does not exist and install.createNamespace is false: create the namespace, or set "+
			"install.createNamespace to true", n.Name)
}

// explain returns another error if the namespace is being deleted.
func (n *Namespacer) explain(err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return helmerr.New(nil, "the namespace %q is being terminated: the action is tried again when it is gone", n.Name)
	}
	return err
}
