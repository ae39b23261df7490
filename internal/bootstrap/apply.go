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
	// fieldManager is the command's field manager. If a repository of Flux has an object of the command, too, Flux takes
	// over all fields of managers whose name begins with "kubectl", as it does for "kubectl apply".
	fieldManager = "kubectl-helmop"
	// poll is the interval at which objects are checked while waiting.
	poll = 500 * time.Millisecond
	// patience is the time limit for one request.
	patience = 30 * time.Second
)

// Outcome is the result for an object.
type Outcome string

// Outcomes of Apply and of Wait.
const (
	Created    Outcome = "created"
	Configured Outcome = "configured"
	Unchanged  Outcome = "unchanged"
	Ready      Outcome = "ready"
)

var (
	// ErrNotReady is wrapped by errors about objects that did not become ready in time.
	ErrNotReady = errors.New("not ready")
	// ErrPaused is wrapped by errors about paused HelmOps.
	ErrPaused = errors.New("paused")
)

// Applier applies objects to a cluster.
type Applier struct {
	// Client is a client for the cluster. It must know the kinds of HelmOp.
	Client client.Client
	// Report is called with the result for each object.
	Report func(object client.Object, outcome Outcome)
}

// Check returns an error if the cluster cannot run the provider, because it lacks Cluster API.
func (a *Applier) Check(ctx context.Context) error {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: crdKind})
	err := a.bounded(ctx, func(ctx context.Context) error {
		return a.Client.Get(ctx, client.ObjectKey{Name: "clusters.cluster.x-k8s.io"}, crd)
	})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: Cluster API is not installed in the cluster; install it first (clusterctl init)", ErrInvalid)
	}
	if err != nil {
		return fmt.Errorf("reading from the management cluster: %w", err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if !slices.ContainsFunc(versions, func(version any) bool {
		fields, _ := version.(map[string]any)
		return fields["name"] == "v1beta2" && fields["served"] == true
	}) {
		return fmt.Errorf("%w: the cluster's Cluster API does not serve v1beta2; upgrade it to 1.11 or later", ErrInvalid)
	}
	return nil
}

// Apply applies objects in order. It waits until CustomResourceDefinitions are served before it applies later objects.
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
		a.Report(object, outcome)
	}
	return nil
}

func (a *Applier) apply(ctx context.Context, object *unstructured.Unstructured) (outcome Outcome, err error) {
	err = a.bounded(ctx, func(ctx context.Context) error {
		// An update of the status may conflict with the transfer of field ownership.
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
	err = a.Client.Apply(
		ctx,
		client.ApplyConfigurationFromUnstructured(applied),
		client.FieldOwner(fieldManager),
		client.ForceOwnership,
	)
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

// Wait returns when all objects are ready.
func (a *Applier) Wait(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		why := "it was not checked"
		err := a.until(ctx, func(ctx context.Context) (bool, error) {
			now := object.DeepCopy()
			if err := a.Client.Get(ctx, client.ObjectKeyFromObject(object), now); err != nil {
				why = orBefore(ctx, err, why)
				return false, nil // reported when the time is over
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
		a.Report(object, Ready)
	}
	return nil
}

// WaitFor returns when a HelmOp's release in the management cluster has the artifact and the condition is true. It
// returns ErrPaused for a paused HelmOp.
func (a *Applier) WaitFor(ctx context.Context, helmOp, digest, condition string) error {
	release, why := &addonsv1.HelmOpRelease{}, "the manager has not reconciled it yet"
	err := a.until(ctx, func(ctx context.Context) (bool, error) {
		if err := a.paused(ctx, helmOp); err != nil {
			return false, err
		}
		list := &addonsv1.HelmOpReleaseList{}
		err := a.Client.List(
			ctx,
			list,
			client.InNamespace(Namespace),
			client.MatchingLabels{addonsv1.HelmOpNameLabel: helmOp},
		)
		if err != nil {
			why = orBefore(ctx, err, why)
			return false, nil // reported when the time is over
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
		// A release stays installed when its signature no longer meets the policy, so Verified is checked, too.
		unverified, err := a.unverified(ctx, helmOp)
		if err != nil {
			why = orBefore(ctx, err, why)
			return false, nil // reported when the time is over
		}
		why = unverified
		return why == "", nil
	})
	if err != nil {
		return fmt.Errorf("HelmOp %s: %w", helmOp, withReason(err, why))
	}
	release.SetGroupVersionKind(addonsv1.GroupVersion.WithKind("HelmOpRelease"))
	a.Report(release, Ready)
	return nil
}

// paused returns an error if a HelmOp is paused.
func (a *Applier) paused(ctx context.Context, name string) error {
	helmOp := &addonsv1.HelmOp{}
	if err := a.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, helmOp); err != nil {
		return nil //nolint:nilerr // the caller reports a missing HelmOp
	}
	switch {
	case helmOp.Spec.Paused:
		return fmt.Errorf("%w: spec.paused is true", ErrPaused)
	case annotations.HasPaused(helmOp):
		return fmt.Errorf("%w: it has the annotation cluster.x-k8s.io/paused", ErrPaused)
	default:
		return nil
	}
}

// unverified returns why the signature required by a HelmOp is not confirmed. The text is empty if the signature is
// confirmed, or if none is required.
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
		return "the manager has not checked its signature yet", nil
	case verified.Status != metav1.ConditionTrue:
		return verified.Reason + ": " + verified.Message, nil
	default:
		return "", nil
	}
}

// whyNot returns the Ready condition of a HelmOp as text. If it cannot read the condition in time, it returns the text
// before.
func (a *Applier) whyNot(ctx context.Context, name, before string) string {
	helmOp := &addonsv1.HelmOp{}
	if err := a.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, helmOp); err != nil {
		return orBefore(ctx, err, before)
	}
	if ready := conditions.Get(helmOp, addonsv1.ReadyCondition); ready != nil {
		return ready.Reason + ": " + ready.Message
	}
	return "the manager has not reconciled it yet"
}

// orBefore returns the text of an error. If the time is over and there is an earlier reason, it returns the earlier
// reason instead.
func orBefore(ctx context.Context, err error, before string) string {
	if ctx.Err() != nil && before != "" {
		return before
	}
	return err.Error()
}

// until polls until ask returns true or an error, or the time is over.
func (a *Applier) until(ctx context.Context, ask func(context.Context) (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (done bool, err error) {
		err = a.bounded(ctx, func(ctx context.Context) error {
			done, err = ask(ctx)
			return err
		})
		return done, err
	})
}

// bounded runs one step with a time limit.
func (a *Applier) bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return do(ctx)
}

// withReason adds the reason to an error if the time is over.
func withReason(err error, why string) error {
	if !wait.Interrupted(err) {
		return err
	}
	return fmt.Errorf("%w in time: %s", ErrNotReady, why)
}

// Title returns kind and name of an object for messages.
func Title(object client.Object) string {
	name := object.GetName()
	if namespace := object.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return object.GetObjectKind().GroupVersionKind().Kind + " " + name
}
