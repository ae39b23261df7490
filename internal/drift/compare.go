// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/notserved"
)

const (
	// parallel is the number of objects that are compared at the same time, so that requests to a distant cluster take
	// less time in total.
	parallel = 4
	// maxUnanswered is the number of requests without an answer after which the cluster counts as unreachable. Each of
	// these requests may have taken until its deadline.
	maxUnanswered = 3
)

// Comparison is the result of a comparison. It omits objects that were not compared because the time was over or the
// cluster did not respond. All references have the form of the manifest.
type Comparison struct {
	// Differences are the objects that differ, in the order of the manifest.
	Differences []Difference
	// Compared are all objects that were compared, equal or not.
	Compared []inventory.Ref
	// Failed are the objects that could not be compared.
	Failed []*ObjectError
}

// Compare compares objects of a release's manifest with the cluster. manifest may contain only some objects of the
// release. Compare does not change it. Objects under deletion are skipped.
//
// An error of one object does not delay the other objects. Compare starts objects in the order of the manifest, during
// the first two thirds of the time until the deadline of ctx. Started objects may use the rest. It returns an error if
// it could compare no object.
func Compare(ctx context.Context, c Cluster, release Release, rules *Rules,
	manifest []*unstructured.Unstructured,
) (Comparison, error) {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return Comparison{}, fmt.Errorf("connecting to the cluster: %w", err)
	}
	run := &comparison{client: client, mapper: c.Mapper, release: release, rules: rules}
	begin := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		begin, cancel = context.WithTimeout(ctx, time.Until(deadline)*2/3)
		defer cancel()
	}
	results := make([]outcome, len(manifest))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, obj := range manifest {
		group.Go(func() error {
			if begin.Err() == nil && run.unanswered.Load() < maxUnanswered {
				results[i] = run.compareObject(ctx, obj)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Comparison{}, err
	}
	return collect(manifest, results), nil
}

// comparison is one call of Compare.
type comparison struct {
	client     dynamic.Interface
	mapper     meta.RESTMapper
	release    Release
	rules      *Rules
	unanswered atomic.Int32
}

// outcome is the result for one object; the zero value means that the object was not compared.
type outcome struct {
	compared   bool
	difference *Difference
	err        *ObjectError
}

// collect combines the outcomes of the objects of a manifest.
func collect(manifest []*unstructured.Unstructured, results []outcome) Comparison {
	var all Comparison
	for i, result := range results {
		if result.compared {
			all.Compared = append(all.Compared, inventory.Of(manifest[i]))
		}
		if result.err != nil {
			all.Failed = append(all.Failed, result.err)
		}
		if result.difference != nil {
			all.Differences = append(all.Differences, *result.difference)
		}
	}
	return all
}

// compareObject compares one object. Its errors hold no values of the object.
func (c *comparison) compareObject(ctx context.Context, obj *unstructured.Unstructured) outcome {
	difference, err := c.compareUnredacted(ctx, obj)
	if isStale(err) {
		// The object was changed, deleted or re-created between the two requests: compare it again.
		difference, err = c.compareUnredacted(ctx, obj)
	}
	if err != nil {
		if isUnanswered(err) {
			c.unanswered.Add(1)
		}
		return outcome{err: describe(inventory.Of(obj), err)}
	}
	return outcome{compared: true, difference: difference}
}

// compareUnredacted compares one object. Its errors may hold values of the object.
func (c *comparison) compareUnredacted(ctx context.Context, obj *unstructured.Unstructured) (*Difference, error) {
	pointers, whole := c.rules.forObject(obj)
	if whole || optedOut(obj) {
		return nil, nil
	}
	ref := inventory.Of(obj)
	desired, resource, err := c.resolve(obj, &ref)
	if err != nil {
		return nil, err
	}
	live, err := resource.Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !notserved.Is(err) {
		if isDeletedAfterCompletion(desired) {
			return nil, nil
		}
		return &Difference{Ref: ref, Missing: true, desired: desired}, nil
	}
	if err != nil {
		return nil, err
	}
	if optedOut(live) || live.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	if owner := foreignOwner(live, c.release); owner != "" {
		return &Difference{Ref: ref, Paths: ownerPaths(), Owner: owner}, nil
	}
	return compareLive(ctx, resource, ref, desired, live, pointers)
}

// resolve returns a copy of the object as Helm sends it, and the client for its resource. It completes ref with the
// namespace and the version.
func (c *comparison) resolve(obj *unstructured.Unstructured,
	ref *inventory.Ref,
) (*unstructured.Unstructured, dynamic.ResourceInterface, error) {
	if ref.Name == "" {
		return nil, nil, errors.New("the object has no name and cannot be compared")
	}
	mapping, err := c.mapper.RESTMapping(ref.GroupVersionKind().GroupKind(), ref.Version)
	if err != nil {
		return nil, nil, err
	}
	ref.Namespace = ""
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if ref.Namespace = obj.GetNamespace(); ref.Namespace == "" {
			ref.Namespace = c.release.Namespace
		}
	}
	desired, err := newDesired(obj, ref.Namespace, c.release)
	if err != nil {
		return nil, nil, err
	}
	return desired, resourceClient(c.client, mapping, ref.Namespace), nil
}

// resourceClient returns the client for objects of a kind in a namespace. It ignores the namespace if the kind is
// cluster-scoped.
func resourceClient(client dynamic.Interface, mapping *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return client.Resource(mapping.Resource)
	}
	return client.Resource(mapping.Resource).Namespace(namespace)
}

// compareLive compares an object that exists.
func compareLive(ctx context.Context, resource dynamic.ResourceInterface, ref inventory.Ref,
	obj, live *unstructured.Unstructured, ignored [][]string,
) (*Difference, error) {
	desired := toCompare(obj, live, ignored)
	p, err := makePatch(ref, desired, live.Object)
	if err != nil || p.empty() {
		return nil, err
	}
	if err := p.guard(live); err != nil {
		return nil, err
	}
	difference := &Difference{Ref: ref, patch: p.data, patchType: p.kind, version: live.GetResourceVersion(),
		content: contentOf(live)}
	corrected, err := resource.Patch(ctx, ref.Name, p.kind, p.data, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager,
	})
	var paths [][]string
	switch {
	case apierrors.IsInvalid(err) && !isStale(err):
		// The API server refuses to change the live object to match the manifest. This is a difference too.
		difference.Refused = describe(ref, err)
		paths = changedPaths(live.Object, desired)
	case err != nil:
		return nil, err
	default:
		if paths = differingPaths(live, corrected, desired); len(paths) == 0 {
			return nil, nil
		}
	}
	difference.name(live, paths)
	return difference, nil
}

// patch is a patch to send to the API server.
type patch struct {
	kind types.PatchType
	data []byte
	// exact is true if the patch is valid only for this version of the live object.
	exact bool
}

func (p patch) empty() bool {
	return string(p.data) == "{}"
}
