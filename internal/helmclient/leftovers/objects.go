// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
)

// Objects are the objects of [Leftovers].
type Objects struct {
	revisions []revision
	// HasBaseline is [Leftovers].HasBaseline.
	HasBaseline bool
}

// revision is a Revision with its objects.
type revision struct {
	Revision
	objects kube.ResourceList
}

// Build returns the objects of revisions. build parses a manifest; its argument validate is false. from may be nil.
func Build(from *Leftovers, build func(manifest io.Reader, validate bool) (kube.ResourceList, error)) (Objects, error) {
	if from == nil {
		return Objects{}, nil
	}
	left := Objects{HasBaseline: from.HasBaseline}
	for _, one := range from.Revisions {
		objects, err := build(strings.NewReader(one.Manifest), false)
		if err != nil {
			return Objects{}, fmt.Errorf("reading the objects that failed Helm revisions left behind: %w", err)
		}
		left.revisions = append(left.revisions, revision{Revision: one, objects: objects})
	}
	return left, nil
}

// HasMade reports whether the revisions created an object. A failed revision may only have taken it over: then the
// object may hold the data of its owner, and the deletion of a CustomResourceDefinition would delete all its objects.
// If this is not certain, the result is false. For a revision of another tool, the managed fields do not show who
// created the object, so its time decides. These times have no fractions of a second.
func (o Objects) HasMade(info *resource.Info, observed *objectinfo.State) bool {
	var since, sinceForeign time.Time
	for _, revision := range o.revisions {
		switch {
		case !revision.objects.Contains(info):
		case revision.Worked:
			return true
		case revision.IsForeign:
			sinceForeign = model.Earlier(sinceForeign, revision.Since)
		default:
			since = model.Earlier(since, revision.Since)
		}
	}
	return !since.IsZero() && observed.IsMade && !observed.Created.Before(since) ||
		!sinceForeign.IsZero() && observed.Created.After(sinceForeign)
}

// Lacks reports whether one of the revisions does not have an object.
func (o Objects) Lacks(info *resource.Info) bool {
	return slices.ContainsFunc(o.revisions, func(revision revision) bool { return !revision.objects.Contains(info) })
}

// Except returns the objects that are not in known, each as it is in the newest revision that has it.
func (o Objects) Except(known kube.ResourceList) kube.ResourceList {
	var rest kube.ResourceList
	for _, revision := range o.revisions {
		rest = append(rest, revision.objects.Difference(known).Difference(rest)...)
	}
	return rest
}
