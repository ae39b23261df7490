// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package brake

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// maxNamed is the maximum number of objects that a message names.
const maxNamed = 3

// ObjectLoss lists the objects that an action on a release in the management cluster would delete. Such an action is an
// upgrade, a rollback or an uninstallation.
type ObjectLoss struct {
	// Objects are the objects that the action would delete. Total is the number of objects of the release, which
	// includes them.
	Objects []inventory.Ref
	Total   int

	// Undoes is true if the action removes a release that never worked. The limit does not apply to such a release.
	Undoes bool

	// Max is the limit, see Limit.
	Max *intstr.IntOrString

	// Occasion identifies the action among actions that would delete the same objects.
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
// deletes no Cluster of Cluster API with its objects.
func (l ObjectLoss) Why() string {
	limit := Limit(l.Max, l.Total)
	isOff := l.Max != nil && l.Max.Type == intstr.String && l.Max.StrVal == "100%"
	var vital []inventory.Ref
	for _, object := range l.Objects {
		if isVital(object) {
			vital = append(vital, object)
		}
	}
	switch {
	case len(l.Objects) == 0 || isOff:
		return ""
	case len(vital) > 0:
		return fmt.Sprintf("would delete %d of %d objects, and may delete Clusters or machines with them: %s",
			len(l.Objects), l.Total, named(vital))
	case len(l.Objects) > limit && !l.Undoes:
		return fmt.Sprintf("would delete %d of %d objects, and spec.maxDeletions allows %d: %s", len(l.Objects), l.Total,
			limit, named(l.Objects))
	default:
		return ""
	}
}

// ownsNothing are kinds of Cluster API that own neither Clusters nor machines. A confirmation for each of them would
// train users to confirm without reading.
var ownsNothing = map[schema.GroupKind]bool{
	{Group: clusterv1.GroupVersion.Group, Kind: "MachineHealthCheck"}:       true,
	{Group: clusterv1.GroupVersion.Group, Kind: "MachineDrainRule"}:         true,
	{Group: addonsv1.GroupVersion.Group, Kind: "ClusterResourceSet"}:        true,
	{Group: addonsv1.GroupVersion.Group, Kind: "ClusterResourceSetBinding"}: true,
}

// isVital reports whether the deletion of an object may delete Clusters or machines. A Namespace or a
// CustomResourceDefinition deletes all its objects. An object of Cluster API or its providers may own machines. A
// HelmOp owns the releases in a whole fleet. Templates own nothing: upgrades regularly replace them. It errs to the
// safe side: a provider may have other kinds that own nothing, for example an identity.
func isVital(object inventory.Ref) bool {
	switch object.Group {
	case corev1.GroupName:
		return object.Kind == "Namespace"
	case apiextensionsv1.GroupName:
		return object.Kind == "CustomResourceDefinition"
	default:
		return inventory.IsClusterAPI(object.Group) && !strings.HasSuffix(object.Kind, "Template") &&
			!ownsNothing[schema.GroupKind{Group: object.Group, Kind: object.Kind}]
	}
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
