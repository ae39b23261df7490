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

package controllers

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capilabels "sigs.k8s.io/cluster-api/util/labels/format"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// objectReadRetry is the wait before an object that a Cluster refers to and that cannot be read is read again: nothing
// tells when it appears.
const objectReadRetry = 15 * time.Second

// errRecord wraps an error of writing a HelmOpRelease.
var errRecord = errors.New("cannot write the HelmOpRelease")

// clusterScope is what a pass over a HelmOp knows of one Cluster.
type clusterScope struct {
	name string

	// cluster is nil if the Cluster is gone; object is the same as the API server serves it.
	cluster  *clusterv1.Cluster
	object   *unstructured.Unstructured
	selected bool

	// child is what the Cluster was told; nil if nothing.
	child *addonsv1.HelmOpRelease

	// desired is what the Cluster is to be told; nil if that is not known. err tells why rendering failed. Set by render.
	desired *addonsv1.HelmOpReleaseSpec
	err     error

	// step is what is done. Set by record.
	step rollout.Step
}

// selectClusters finds the Clusters that are selected, and those that have a release from when they were.
func (r *helmOpReconciler) selectClusters(ctx context.Context, scope *helmOpScope) error {
	helmOp := scope.helmOp
	selector, err := metav1.LabelSelectorAsSelector(&helmOp.Spec.ClusterSelector)
	if err != nil {
		// Nothing is selected and nothing unselected: releases stay as they are.
		scope.selectorErr = fmt.Errorf("spec.clusterSelector: %w", err)
		return nil
	}
	list := newClusterList()
	// The objects are only read, so they need not be copied.
	if err := r.client.List(ctx, list, client.InNamespace(helmOp.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Clusters: %w", err)
	}
	children, err := r.children(ctx, helmOp)
	if err != nil {
		return err
	}
	byCluster := make(map[string]*addonsv1.HelmOpRelease, len(children))
	for _, child := range children {
		byCluster[child.Spec.ClusterRef.Name] = child
	}
	for i := range list.Items {
		object := &list.Items[i]
		child := byCluster[object.GetName()]
		delete(byCluster, object.GetName())
		selected := selector.Matches(labels.Set(object.GetLabels()))
		if !selected && child == nil {
			continue
		}
		cluster, err := typedCluster(object)
		if err != nil {
			// What cannot be read is left as it is.
			cluster, selected = &clusterv1.Cluster{}, true
		}
		scope.clusters = append(scope.clusters, &clusterScope{
			name: object.GetName(), cluster: cluster, object: object, selected: selected, child: child, err: err,
		})
	}
	for name, child := range byCluster {
		scope.clusters = append(scope.clusters, &clusterScope{name: name, child: child})
	}
	sort.Slice(scope.clusters, func(i, j int) bool { return scope.clusters[i].name < scope.clusters[j].name })
	return nil
}

// render finds out what each Cluster is to have. What fails for one Cluster is that Cluster's own trouble.
func (r *helmOpReconciler) render(ctx context.Context, scope *helmOpScope) error {
	program, err := r.renderer.compile(ctx, scope.helmOp)
	var invalid *templating.Error
	switch {
	case errors.As(err, &invalid) || errors.Is(err, errReferenceNotFound):
		// What is written is wrong: an event of the HelmOp or of what it refers to brings the next pass.
		scope.programErr = err
		return nil
	case err != nil:
		return err
	}
	if scope.artifact == nil {
		return nil
	}
	if scope.helmOp.Status.Revision, err = digestOf(program.digest, artifactIdentity(scope.artifact), scope.helmOp.Spec.ReleaseOptions); err != nil {
		return err
	}
	for _, c := range scope.clusters {
		if !c.selected || c.err != nil || !c.cluster.DeletionTimestamp.IsZero() || !isInitialized(c.cluster) {
			continue
		}
		rendered, objects := r.renderer.outcome(ctx, program, c.object, c.cluster)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if objects != nil {
			r.watchKinds(ctx, objects.watched)
		}
		if rendered.err != nil {
			c.err = rendered.err
			if errors.Is(rendered.err, errObjectRead) {
				scope.retryWithin(objectReadRetry)
			}
			continue
		}
		c.desired = &addonsv1.HelmOpReleaseSpec{
			ClusterRef:       addonsv1.ClusterReference{Name: c.name},
			Release:          rendered.release,
			Artifact:         *scope.artifact,
			ValuesDigest:     rendered.valuesDigest,
			PostRenderDigest: rendered.postRenderDigest,
			ReleaseOptions:   scope.helmOp.Spec.ReleaseOptions,
			DeletionPolicy:   scope.helmOp.Spec.DeletionPolicy,
		}
	}
	return nil
}

// retryWithin makes the next pass come no later than after a delay.
func (s *helmOpScope) retryWithin(delay time.Duration) {
	if s.requeueAfter == 0 || s.requeueAfter > delay {
		s.requeueAfter = delay
	}
}

// watchKinds makes changes of the kinds of these objects reach the HelmOps of their Clusters.
func (r *helmOpReconciler) watchKinds(ctx context.Context, objects []*unstructured.Unstructured) {
	for _, obj := range objects {
		if err := r.tracker.Watch(ctrl.LoggerFrom(ctx), obj, r.handlerForClusterObjects()); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot watch a kind that templates see; its changes wait for the next resync",
				"kind", obj.GroupVersionKind().String())
		}
	}
}

func (r *helmOpReconciler) handlerForClusterObjects() handler.EventHandler {
	return delayed(func(ctx context.Context, obj client.Object) []ctrl.Request {
		return requestsForClusterObject(ctx, r.client, obj)
	})
}

// record carries out the plan. An error for one Cluster does not keep the others from their step.
func (r *helmOpReconciler) record(ctx context.Context, scope *helmOpScope) error {
	planned, err := planInput(scope.clusters)
	if err != nil {
		return err
	}
	var errs []error
	for i, step := range rollout.Plan(rollout.Input{Clusters: planned}).Steps {
		c := scope.clusters[i]
		c.step = step
		if err := r.carryOut(ctx, scope.helmOp, c); err != nil {
			err = fmt.Errorf("%w: %w", errRecord, err)
			errs = append(errs, fmt.Errorf("cluster %s: %w", c.name, err))
			if c.err == nil {
				c.err = err
			}
		}
	}
	return kerrors.NewAggregate(errs)
}

// planInput reduces what is known of the Clusters to what the plan needs.
func planInput(clusters []*clusterScope) ([]rollout.Cluster, error) {
	planned := make([]rollout.Cluster, 0, len(clusters))
	for _, c := range clusters {
		input := rollout.Cluster{Name: c.name, Selected: c.selected, Gone: c.object == nil}
		if c.cluster != nil {
			input.Deleting = !c.cluster.DeletionTimestamp.IsZero()
			input.Paused = isClusterPaused(c.cluster)
			input.Initialized = isInitialized(c.cluster)
		}
		if c.desired != nil {
			desired, err := plannedRelease(c.desired)
			if err != nil {
				return nil, err
			}
			input.Target = &desired
		}
		if c.child != nil {
			told, err := plannedRelease(&c.child.Spec)
			if err != nil {
				return nil, err
			}
			input.Child = &rollout.Child{Release: told, Deleting: !c.child.DeletionTimestamp.IsZero()}
			input.Paused = input.Paused || isChildPaused(c.child)
		}
		planned = append(planned, input)
	}
	return planned, nil
}

func plannedRelease(spec *addonsv1.HelmOpReleaseSpec) (rollout.Release, error) {
	revision, err := digestOf(spec)
	return rollout.Release{Identity: spec.Release.Namespace + "/" + spec.Release.Name, Content: revision}, err
}

func (r *helmOpReconciler) carryOut(ctx context.Context, helmOp *addonsv1.HelmOp, c *clusterScope) error {
	log := ctrl.LoggerFrom(ctx).WithValues("Cluster", c.name, "why", c.step.Why)
	switch c.step.Action {
	case rollout.ActionCreate:
		log.Info("Creating a release")
		return r.createChild(ctx, helmOp, c)
	case rollout.ActionUpdate:
		log.Info("Updating a release")
		return r.updateChild(ctx, helmOp, c)
	case rollout.ActionReplace, rollout.ActionDelete:
		log.Info("Ending a release")
		return client.IgnoreNotFound(r.client.Delete(ctx, c.child))
	default:
		if c.child == nil || c.object == nil || isClusterPaused(c.cluster) {
			return nil
		}
		return r.repairChild(ctx, helmOp, c.child)
	}
}

// repairChild gives a child back what makes it known as the HelmOp's: the owner reference, which a restore from a backup may
// have lost or left with the UID of before, and the labels, that of the watch filter among them.
func (r *helmOpReconciler) repairChild(ctx context.Context, helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease) error {
	before := child.DeepCopy()
	if err := r.own(helmOp, child); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before.ObjectMeta, child.ObjectMeta) {
		return nil
	}
	return client.IgnoreNotFound(r.client.Patch(ctx, child, client.MergeFrom(before)))
}

func (r *helmOpReconciler) createChild(ctx context.Context, helmOp *addonsv1.HelmOp, c *clusterScope) error {
	child := &addonsv1.HelmOpRelease{
		ObjectMeta: metav1.ObjectMeta{
			Name:       childName(helmOp.Name, c.name),
			Namespace:  helmOp.Namespace,
			Finalizers: []string{addonsv1.HelmOpReleaseFinalizer},
		},
		Spec: *c.desired,
	}
	if err := r.own(helmOp, child); err != nil {
		return err
	}
	err := r.client.Create(ctx, child)
	if apierrors.IsAlreadyExists(err) {
		// The cache has not seen it yet, or its label was lost by which children are found.
		existing := &addonsv1.HelmOpRelease{}
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(child), existing); err != nil {
			return client.IgnoreNotFound(err)
		}
		return r.repairChild(ctx, helmOp, existing)
	}
	if err == nil {
		c.child = child
	}
	return err
}

func (r *helmOpReconciler) updateChild(ctx context.Context, helmOp *addonsv1.HelmOp, c *clusterScope) error {
	before := c.child.DeepCopy()
	c.child.Spec = *c.desired
	if err := r.own(helmOp, c.child); err != nil {
		return err
	}
	return client.IgnoreNotFound(r.client.Patch(ctx, c.child, client.MergeFrom(before)))
}

// own makes a child known as the HelmOp's. The watch filter's label goes with it, so that the manager that creates a
// child also reconciles it.
func (r *helmOpReconciler) own(helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease) error {
	wanted := childSelector(helmOp)
	wanted[clusterv1.ClusterNameLabel] = capilabels.MustFormatValue(child.Spec.ClusterRef.Name)
	if child.Labels == nil {
		child.Labels = map[string]string{}
	}
	delete(child.Labels, clusterv1.WatchLabel)
	if filter, ok := helmOp.Labels[clusterv1.WatchLabel]; ok {
		wanted[clusterv1.WatchLabel] = filter
	}
	for key, value := range wanted {
		child.Labels[key] = value
	}
	err := controllerutil.SetControllerReference(helmOp, child, r.client.Scheme())
	var owned *controllerutil.AlreadyOwnedError
	if errors.As(err, &owned) && owned.Owner.Kind == helmOpKind {
		// A HelmOp of the same name that is gone, for example restored from a backup under another UID.
		child.OwnerReferences = nil
		return controllerutil.SetControllerReference(helmOp, child, r.client.Scheme())
	}
	return err
}

// childSelector are the labels by which the children of a HelmOp are found.
func childSelector(helmOp *addonsv1.HelmOp) map[string]string {
	return map[string]string{addonsv1.HelmOpNameLabel: capilabels.MustFormatValue(helmOp.Name)}
}
