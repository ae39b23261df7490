// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	// fieldManager is what this is called among those that change objects.
	fieldManager = "kubectl-helmop"
	// poll is how often it is looked at what is waited for.
	poll = 500 * time.Millisecond
	// patience is how long one request may take.
	patience = 30 * time.Second
)

// Outcome is what became of an object.
type Outcome string

// Outcomes of Apply and of Wait.
const (
	Created    Outcome = "created"
	Configured Outcome = "configured"
	Unchanged  Outcome = "unchanged"
	Ready      Outcome = "ready"
)

var (
	// ErrNotReady is wrapped by errors that tell what did not become ready in time.
	ErrNotReady = errors.New("not ready")
	// ErrPaused is wrapped by errors that tell for what nothing is done because somebody wants it so.
	ErrPaused = errors.New("paused")
)

// Applier applies objects to a cluster.
type Applier struct {
	// Client reaches the cluster. It must know the kinds of HelmOp.
	Client client.Client
	// Tell is told what becomes of each object.
	Tell func(object client.Object, outcome Outcome)
}

// Check tells whether a cluster can have the provider: Cluster API must be in it.
func (a *Applier) Check(ctx context.Context) error {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: crdKind})
	err := a.bounded(ctx, func(ctx context.Context) error {
		return a.Client.Get(ctx, client.ObjectKey{Name: "clusters.cluster.x-k8s.io"}, crd)
	})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: Cluster API is not in the cluster: install it first (clusterctl init)", ErrInvalid)
	}
	if err != nil {
		return fmt.Errorf("asking the management cluster: %w", err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if !slices.ContainsFunc(versions, func(version any) bool {
		fields, _ := version.(map[string]any)
		return fields["name"] == "v1beta2" && fields["served"] == true
	}) {
		return fmt.Errorf("%w: Cluster API in the cluster does not serve v1beta2: upgrade it to 1.11 or later", ErrInvalid)
	}
	return nil
}

// Apply applies objects in their order, and waits for CustomResourceDefinitions before what comes after them.
func (a *Applier) Apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	var definitions []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == crdKind {
			definitions = append(definitions, object)
		} else if len(definitions) > 0 {
			if err := a.Wait(ctx, definitions); err != nil {
				return err
			}
			definitions = nil
		}
		outcome, err := a.apply(ctx, object)
		if err != nil {
			return fmt.Errorf("applying %s: %w", Title(object), err)
		}
		a.Tell(object, outcome)
	}
	return nil
}

func (a *Applier) apply(ctx context.Context, object *unstructured.Unstructured) (outcome Outcome, err error) {
	err = a.bounded(ctx, func(ctx context.Context) error {
		// The status of what is taken over may change meanwhile.
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			outcome, err = a.tryApply(ctx, object)
			return err
		})
	})
	return outcome, err
}

func (a *Applier) tryApply(ctx context.Context, object *unstructured.Unstructured) (Outcome, error) {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(object.GroupVersionKind())
	err := a.Client.Get(ctx, client.ObjectKeyFromObject(object), now)
	isNew, before := apierrors.IsNotFound(err), now.ResourceVersion
	if err == nil {
		err = a.takeOver(ctx, object, now)
	}
	if err != nil && !isNew {
		return "", err
	}
	applied := object.DeepCopy()
	err = a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(fieldManager), client.ForceOwnership)
	switch {
	case err != nil:
		return "", err
	case isNew:
		return Created, nil
	case before == applied.GetResourceVersion():
		return Unchanged, nil
	default:
		return Configured, nil
	}
}

// Wait returns when all objects are what they are to be.
func (a *Applier) Wait(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		why := "it was not looked at"
		err := a.until(ctx, func(ctx context.Context) (bool, error) {
			now := object.DeepCopy()
			if err := a.Client.Get(ctx, client.ObjectKeyFromObject(object), now); err != nil {
				why = orBefore(ctx, err, why)
				return false, nil // It is said when there is no more time.
			}
			result, err := status.Compute(now)
			if err != nil {
				return false, err
			}
			why = result.Message
			if result.Status == status.FailedStatus {
				return false, fmt.Errorf("%w: %s", ErrNotReady, why)
			}
			return result.Status == status.CurrentStatus, nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", Title(object), withReason(err, why))
		}
		a.Tell(object, Ready)
	}
	return nil
}

// WaitFor returns when the release of a HelmOp in the management cluster is made from an artifact, and a condition of it is true. It does not wait
// for what is paused.
func (a *Applier) WaitFor(ctx context.Context, helmOp, digest, condition string) error {
	release, why := &addonsv1.HelmOpRelease{}, "the manager has not taken it up"
	err := a.until(ctx, func(ctx context.Context) (bool, error) {
		if err := a.paused(ctx, helmOp); err != nil {
			return false, err
		}
		list := &addonsv1.HelmOpReleaseList{}
		err := a.Client.List(ctx, list, client.InNamespace(Namespace), client.MatchingLabels{addonsv1.HelmOpNameLabel: helmOp})
		if err != nil {
			why = orBefore(ctx, err, why)
			return false, nil // It is said when there is no more time.
		}
		if len(list.Items) == 0 {
			why = a.whyNot(ctx, helmOp, why)
			return false, nil
		}
		*release = list.Items[0]
		if annotations.HasPaused(release) {
			return false, fmt.Errorf("%w: %s", ErrPaused, conditions.GetMessage(release, addonsv1.PausedCondition))
		}
		if release.Spec.Artifact.Digest != digest {
			why = a.whyNot(ctx, helmOp, why)
			return false, nil
		}
		known := conditions.Get(release, condition)
		if known == nil {
			return false, nil
		}
		why = known.Reason + ": " + known.Message
		if conditions.IsTrue(release, addonsv1.StalledCondition) {
			return false, fmt.Errorf("%w: %s", ErrNotReady, why)
		}
		if known.Status != metav1.ConditionTrue || known.ObservedGeneration != release.Generation {
			return false, nil
		}
		// What is there stays although it is not signed as is demanded by now.
		unverified, err := a.unverified(ctx, helmOp)
		if err != nil {
			why = orBefore(ctx, err, why)
			return false, nil // It is said when there is no more time.
		}
		why = unverified
		return why == "", nil
	})
	if err != nil {
		return fmt.Errorf("HelmOp %s: %w", helmOp, withReason(err, why))
	}
	release.SetGroupVersionKind(addonsv1.GroupVersion.WithKind("HelmOpRelease"))
	a.Tell(release, Ready)
	return nil
}

// paused returns an error if nothing is done for a HelmOp.
func (a *Applier) paused(ctx context.Context, name string) error {
	helmOp := &addonsv1.HelmOp{}
	if err := a.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, helmOp); err != nil {
		return nil //nolint:nilerr // That it is not there is told by what waits.
	}
	switch {
	case helmOp.Spec.Paused:
		return fmt.Errorf("%w: spec.paused is true", ErrPaused)
	case annotations.HasPaused(helmOp):
		return fmt.Errorf("%w: it has the paused annotation", ErrPaused)
	default:
		return nil
	}
}

// unverified tells why a HelmOp is not known to have what is signed as it demands; empty if it is, or demands nothing.
func (a *Applier) unverified(ctx context.Context, name string) (string, error) {
	helmOp := &addonsv1.HelmOp{}
	if err := a.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, helmOp); err != nil {
		return "", err
	}
	verified := conditions.Get(helmOp, addonsv1.VerifiedCondition)
	switch {
	case helmOp.Spec.Source.Verify == nil:
		return "", nil
	case verified == nil || verified.ObservedGeneration != helmOp.Generation:
		return "the manager has not looked at its signature", nil
	case verified.Status != metav1.ConditionTrue:
		return verified.Reason + ": " + verified.Message, nil
	default:
		return "", nil
	}
}

// whyNot tells what a HelmOp says of itself, or what was known before.
func (a *Applier) whyNot(ctx context.Context, name, before string) string {
	helmOp := &addonsv1.HelmOp{}
	if err := a.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, helmOp); err != nil {
		return orBefore(ctx, err, before)
	}
	if ready := conditions.Get(helmOp, addonsv1.ReadyCondition); ready != nil {
		return ready.Reason + ": " + ready.Message
	}
	return "the manager has not taken it up"
}

// orBefore is the text of an error or, if that is only that the time is over, what was known before.
func orBefore(ctx context.Context, err error, before string) string {
	if ctx.Err() != nil && before != "" {
		return before
	}
	return err.Error()
}

// until asks again and again, until it is so or time is over.
func (a *Applier) until(ctx context.Context, ask func(context.Context) (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (done bool, err error) {
		err = a.bounded(ctx, func(ctx context.Context) error {
			done, err = ask(ctx)
			return err
		})
		return done, err
	})
}

// bounded gives one step its time.
func (a *Applier) bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return do(ctx)
}

// withReason says what was waited for where time is over.
func withReason(err error, why string) error {
	if !wait.Interrupted(err) {
		return err
	}
	return fmt.Errorf("%w in time: %s", ErrNotReady, why)
}

// Title names an object to people.
func Title(object client.Object) string {
	name := object.GetName()
	if namespace := object.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return object.GetObjectKind().GroupVersionKind().Kind + " " + name
}
