// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
)

// These are errors of steps that another run of the command, or another program, prevents.
var (
	errDetaching = errors.New("its deletion has begun, so that the migration cannot be undone; complete it with --apply")
	errReturning = errors.New("it is being returned to its tool; repeat the command with --undo first")
	// errFleetDeleted means that a user deletes a HelmOp of Fleet whose migration has begun.
	errFleetDeleted = errors.New("it is being deleted, so that Fleet would uninstall its releases without " +
		"spec.keepResources")
	errNotPaused = errors.New("it is not paused any more; stop the client that resumes it, and repeat the command")
)

// tool is another tool whose releases HelmOp adopts. All methods can be called repeatedly.
type tool interface {
	// kinds are the kinds of the tool's objects.
	kinds() []schema.GroupVersionKind

	// plan reads the objects of the namespace of the client, and converts them.
	plan(ctx context.Context, c *kube.Client) (*migrate.Plan, error)

	// pause stops the tool for an item, and sets the step of its objects to migrate.StepPaused. It keeps
	// migrate.StepDetaching. It returns an error if the step is migrate.StepReturning.
	pause(ctx context.Context, c *kube.Client, item *migrate.Item) error

	// resume is the opposite of pause. It resumes the first object of the item last: its step prevents that another run
	// pauses the item at the same time.
	resume(ctx context.Context, c *kube.Client, item *migrate.Item) error

	// detach deletes the paused objects of an item. The tool does not uninstall their releases.
	detach(ctx context.Context, c *kube.Client, item *migrate.Item) error
}

// forgetter is a tool that cannot pass a release to HelmOp. It stops managing its releases, and HelmOp installs the
// charts over their objects. Until then, the HelmOp of an item is paused. All methods can be called repeatedly.
type forgetter interface {
	// awaitKept waits until the tool would keep the objects of an item if detach deleted the objects of the tool.
	awaitKept(ctx context.Context, c *kube.Client, item *migrate.Item) error

	// checkGone returns an error if the tool again has objects for an item after detach has deleted them.
	checkGone(ctx context.Context, c *kube.Client, item *migrate.Item) error

	// awaitForgotten waits until the tool has finished its work on the releases of an item whose objects are deleted.
	awaitForgotten(ctx context.Context, c *kube.Client, item *migrate.Item) error
}

// toolNames are the values of --from.
var toolNames = []string{"caaph", "flux", "fleet", "helm"}

// toolOf returns the tool for --from; nil if it is unknown.
func (m *migration) toolOf() tool {
	switch m.from {
	case "caaph":
		return caaph{}
	case "flux":
		return flux{}
	case "fleet":
		return fleetTool{readRecord: recordIn, interval: recordInterval}
	case "helm":
		return plain{release: m.release, source: m.chartSource(), timeout: recordTimeout}
	default:
		return nil
	}
}

// list lists the objects of a kind in the namespace of a client.
func list(ctx context.Context, c *kube.Client, kind schema.GroupVersionKind) ([]*unstructured.Unstructured, error) {
	return listIn(ctx, c, kind, c.Namespace)
}

// listIn lists the objects of a kind in a namespace.
func listIn(ctx context.Context, c *kube.Client, kind schema.GroupVersionKind, namespace string,
	opts ...client.ListOption,
) ([]*unstructured.Unstructured, error) {
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	items, _, err := kube.ListAll[*unstructured.Unstructured](ctx, c, objects,
		append(opts, client.InNamespace(namespace))...)
	if kube.IsKindMissing(err) {
		return nil, kube.WithText(fmt.Sprintf("the API server does not serve the kind %s of %s; check --context", kind.Kind,
			kind.GroupVersion()), err)
	}
	return items, err
}

// read reads an object.
func read(ctx context.Context, c *kube.Client, ref migrate.Object, object *unstructured.Unstructured) error {
	object.Object = nil
	object.SetAPIVersion(ref.APIVersion)
	object.SetKind(ref.Kind)
	return c.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object)
}

// edit changes an object. If another program changes the object at the same time, edit calls change again. edit returns
// nil if the object does not exist.
func edit(ctx context.Context, c *kube.Client, ref migrate.Object, change func(*unstructured.Unstructured) error) (
	*unstructured.Unstructured, error,
) {
	object := &unstructured.Unstructured{}
	err := kube.RetryOnConflict(func() error {
		if err := read(ctx, c, ref, object); err != nil {
			return err
		}
		before := object.DeepCopy()
		if err := change(object); err != nil {
			return err
		}
		return c.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
			client.FieldOwner(kube.FieldManager))
	})
	if apierrors.IsNotFound(err) && !kube.IsKindMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, kube.Explain(err))
	}
	return object, nil
}

// annotate sets an annotation, or removes it if the value is empty.
func annotate(object metav1.Object, key, value string) {
	all := maps.Clone(object.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	if value == "" {
		delete(all, key)
	}
	object.SetAnnotations(all)
}

// stepOf returns the current migration step of an object; empty before the first step.
func stepOf(object metav1.Object) string {
	step, _ := migrate.Step(object)
	return step
}

// setStep sets the step of an object.
func setStep(object metav1.Object, step string, item *migrate.Item) {
	annotate(object, addonsv1.MigrationAnnotation, step+" "+item.HelmOp.Name)
}

// setPaused sets the step of an object to migrate.StepPaused, unless its deletion has begun.
func setPaused(object metav1.Object, item *migrate.Item) error {
	switch stepOf(object) {
	case migrate.StepReturning:
		return errReturning
	case migrate.StepDetaching:
	default:
		setStep(object, migrate.StepPaused, item)
	}
	return nil
}

// markDetaching sets the step of a paused object to migrate.StepDetaching. exists is false if the object does not
// exist.
func markDetaching(ctx context.Context, c *kube.Client, item *migrate.Item, ref migrate.Object,
	isPaused func(*unstructured.Unstructured) bool,
) (exists bool, err error) {
	object, err := edit(ctx, c, ref, func(object *unstructured.Unstructured) error {
		step := stepOf(object)
		switch {
		case step == migrate.StepReturning:
			return errReturning
		case step != migrate.StepPaused && step != migrate.StepDetaching, !isPaused(object):
			return errNotPaused
		}
		setStep(object, migrate.StepDetaching, item)
		return nil
	})
	return object != nil, err
}

// markReturning sets the step of an object whose migration has begun to migrate.StepReturning.
func markReturning(ctx context.Context, c *kube.Client, item *migrate.Item, ref migrate.Object) error {
	_, err := edit(ctx, c, ref, func(object *unstructured.Unstructured) error {
		switch stepOf(object) {
		case migrate.StepDetaching:
			return errDetaching
		case "":
		default:
			setStep(object, migrate.StepReturning, item)
		}
		return nil
	})
	return err
}

// endStep removes the step from an object whose migration has begun. restore gives the object back to its tool. endStep
// returns an error if the deletion of the object has begun.
func endStep(object *unstructured.Unstructured, restore func()) error {
	switch stepOf(object) {
	case migrate.StepDetaching:
		return errDetaching
	case "":
		return nil
	}
	if err := checkUndeleted(object); err != nil {
		return err
	}
	annotate(object, addonsv1.MigrationAnnotation, "")
	restore()
	return nil
}

// checkUndeleted returns an error if a user deletes an object whose migration has begun: its tool would uninstall the
// releases of the object as soon as the object is resumed.
func checkUndeleted(object *unstructured.Unstructured) error {
	if object.GetDeletionTimestamp() == nil || stepOf(object) == "" {
		return nil
	}
	if object.GroupVersionKind() == migrate.FleetHelmOpKind {
		return errFleetDeleted
	}
	return errors.New("it is being deleted, so that its tool would uninstall its release; remove the finalizers of the " +
		"object, which keeps the release, and repeat the command")
}

// deleteChecked deletes an object in a state that a check accepts. The API server refuses the request if the object has
// changed since the check. The function returns no error if the object does not exist.
func deleteChecked(ctx context.Context, c *kube.Client, ref migrate.Object,
	check func(*unstructured.Unstructured) error,
) error {
	object := &unstructured.Unstructured{}
	for range detachAttempts {
		found, err := exists(ctx, c, ref, object)
		if err != nil || !found {
			return err
		}
		if err := check(object); err != nil {
			return fmt.Errorf("%s %w", ref, err)
		}
		err = c.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID()),
			ResourceVersion: ptr.To(object.GetResourceVersion())})
		if !apierrors.IsConflict(err) {
			return kube.Explain(client.IgnoreNotFound(err))
		}
	}
	return errChanges(ref)
}

// errChanges returns the error for an object that its tool changes repeatedly.
func errChanges(ref migrate.Object) error {
	return fmt.Errorf("%s: its tool changes it all the time; stop the tool, and repeat the command", ref)
}

// detachAttempts is the number of attempts to detach an object that its tool changes at the same time.
const detachAttempts = 20

// deleteDetached deletes a paused object while it has neither a finalizer of its tool nor an owner. The API server
// refuses the request if the tool has changed the object after the finalizer and the owners were removed. So the tool
// never finds the object under deletion, and the garbage collector never deletes it because of its owner.
func deleteDetached(ctx context.Context, c *kube.Client, ref migrate.Object, finalizer string,
	isPaused func(*unstructured.Unstructured) bool,
) error {
	for range detachAttempts {
		object, err := edit(ctx, c, ref, func(object *unstructured.Unstructured) error {
			if object.GetDeletionTimestamp() != nil {
				return fmt.Errorf("it is being deleted, so that its tool uninstalls its release")
			}
			if !isPaused(object) {
				return errNotPaused
			}
			controllerutil.RemoveFinalizer(object, finalizer)
			object.SetOwnerReferences(nil)
			return nil
		})
		if err != nil || object == nil {
			return err
		}
		err = c.Delete(ctx, object, client.Preconditions{
			UID: ptr.To(object.GetUID()), ResourceVersion: ptr.To(object.GetResourceVersion()),
		}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if !apierrors.IsConflict(err) {
			return kube.Explain(client.IgnoreNotFound(err))
		}
	}
	return errChanges(ref)
}
