// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package brake

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// maxNamed is the maximum number of objects that a message names.
const maxNamed = 3

// ObjectLoss lists the objects that an upgrade of a release in the management cluster would delete.
type ObjectLoss struct {
	// Objects are the objects that the upgrade would delete. Total is the number of objects of the release, which includes
	// them.
	Objects []inventory.Ref
	Total   int

	// Max is the limit, see Limit.
	Max *intstr.IntOrString

	// Occasion identifies the upgrade among upgrades that would delete the same objects.
	Occasion string
}

// Confirmation returns the value that confirms the loss.
func (l ObjectLoss) Confirmation() string {
	names := make([]string, 0, len(l.Objects))
	for _, object := range l.Objects {
		names = append(names, object.String())
	}
	return confirmation(l.Occasion, names)
}

// Why returns the reason why the loss requires a confirmation, as a text for users. The text is empty if no
// confirmation is required. No confirmation is required if the limit is 100 %, or if the loss is within the limit and
// deletes no Cluster of Cluster API.
func (l ObjectLoss) Why() string {
	limit := Limit(l.Max, l.Total)
	isOff := l.Max != nil && l.Max.Type == intstr.String && l.Max.StrVal == "100%"
	clusters := slices.Collect(func(yield func(inventory.Ref) bool) {
		for _, object := range l.Objects {
			if isCluster(object) && !yield(object) {
				return
			}
		}
	})
	switch {
	case len(l.Objects) == 0 || isOff:
		return ""
	case len(clusters) > 0:
		return fmt.Sprintf("would delete %d of %d objects, among them %s: %s", len(l.Objects), l.Total,
			plural.Count(len(clusters), "Cluster", "Clusters"), named(clusters))
	case len(l.Objects) > limit:
		return fmt.Sprintf("would delete %d of %d objects, and spec.maxDeletions allows %d: %s", len(l.Objects), l.Total,
			limit, named(l.Objects))
	default:
		return ""
	}
}

// isCluster reports whether the deletion of an object deletes a whole cluster.
func isCluster(object inventory.Ref) bool {
	return object.Group == clusterv1.GroupVersion.Group && object.Kind == clusterv1.ClusterKind
}

func named(objects []inventory.Ref) string {
	var names []string
	for _, object := range objects[:min(len(objects), maxNamed)] {
		names = append(names, object.String())
	}
	text := strings.Join(names, ", ")
	if more := len(objects) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
