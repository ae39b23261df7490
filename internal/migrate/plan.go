// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// Plan is what a migration writes.
type Plan struct {
	// Items are in the order of the namespaces and names of their HelmOps.
	Items []Item
}

// Item is a HelmOp and the objects that it replaces.
type Item struct {
	// From are the objects of the other tool. It is empty for plain Helm releases.
	From []Object

	// HelmOp is nil if the objects cannot be converted. A Gap then says why.
	HelmOp *addonsv1.HelmOp

	// Releases are the existing releases.
	Releases []Release

	// Marks are labels and annotations that the Clusters need before the HelmOp is created.
	Marks []Mark

	// Gaps are what the HelmOp cannot express, and what must be solved before the migration.
	Gaps []Gap
}

// Object names an object of another tool.
type Object struct {
	// Kind has the group and the version, too.
	APIVersion, Kind string
	Namespace, Name  string
}

// String returns the object as "Kind namespace/name". Fleet has kinds of the same names as HelmOp and Cluster API.
func (o Object) String() string {
	kind := o.Kind
	if strings.HasPrefix(o.APIVersion, fleetGroup+"/") {
		kind = "Fleet " + kind
	}
	return kind + " " + o.Namespace + "/" + o.Name
}

// Origin returns the object as the annotation MigratedFromAnnotation names it.
func (o Object) Origin() string { return o.Kind + "/" + o.Namespace + "/" + o.Name }

// Release is an existing release.
type Release struct {
	// Cluster is the Cluster of Cluster API.
	Cluster types.NamespacedName

	// Owner is the object of the other tool that belongs to this release alone; the zero Object if there is none.
	Owner Object

	// Name and Namespace are those of the Helm release.
	Name, Namespace string

	// Revision is the newest Helm revision; 0 if the other tool does not store it.
	Revision int64

	// Version is the version of the chart; empty if it is not known. Only a migration from Fleet compares it.
	Version string
}

// Mark is a label or an annotation of a Cluster.
type Mark struct {
	Cluster types.NamespacedName

	// IsLabel is false for an annotation.
	IsLabel bool

	Key, Value string
}

// Gap is what a HelmOp cannot express.
type Gap struct {
	// Field is the field of the other tool's object.
	Field string

	// Text says what happens instead, and what to do.
	Text string

	// Blocks is true if the migration must not begin before a user has solved the gap.
	Blocks bool

	// Secret is the name of a Secret in the namespace of the HelmOp that solves the gap; empty for other gaps.
	Secret string
}

// String returns the gap in one line.
func (g Gap) String() string { return g.Field + ": " + g.Text }

// Origin returns the value of the annotation MigratedFromAnnotation of the HelmOp.
func (i *Item) Origin() string { return i.HelmOp.Annotations[addonsv1.MigratedFromAnnotation] }

// Title names the item for messages.
func (i *Item) Title() string {
	switch {
	case len(i.From) == 1:
		return i.From[0].String()
	case len(i.From) > 1:
		return fmt.Sprintf("%s and %d more", i.From[0], len(i.From)-1)
	case i.HelmOp != nil:
		return "Helm release " + i.HelmOp.Spec.Release.Namespace + "/" + i.HelmOp.Spec.Release.Name
	default:
		return "Helm release"
	}
}

// Blocked are the gaps that must be solved before the migration.
func (i *Item) Blocked() []Gap {
	return slices.DeleteFunc(slices.Clone(i.Gaps), func(g Gap) bool { return !g.Blocks })
}

// gap adds a gap that does not block the migration.
func (i *Item) gap(field, format string, args ...any) {
	i.Gaps = append(i.Gaps, Gap{Field: field, Text: fmt.Sprintf(format, args...)})
}

// block adds a gap that blocks the migration.
func (i *Item) block(field, format string, args ...any) {
	i.Gaps = append(i.Gaps, Gap{Field: field, Text: fmt.Sprintf(format, args...), Blocks: true})
}

// sort puts the parts of a Plan in order.
func (p *Plan) sort() {
	for i := range p.Items {
		item := &p.Items[i]
		slices.SortFunc(item.Releases, func(a, b Release) int {
			return cmp.Or(strings.Compare(a.Cluster.String(), b.Cluster.String()), strings.Compare(a.Name, b.Name))
		})
		slices.SortFunc(item.Marks, func(a, b Mark) int {
			return cmp.Or(strings.Compare(a.Cluster.String(), b.Cluster.String()), strings.Compare(a.Key, b.Key))
		})
	}
	slices.SortStableFunc(p.Items, func(a, b Item) int { return strings.Compare(a.order(), b.order()) })
}

func (i *Item) order() string {
	if i.HelmOp != nil {
		return i.HelmOp.Namespace + "/" + i.HelmOp.Name
	}
	return i.From[0].Namespace + "/" + i.From[0].Name
}

// newHelmOp returns a HelmOp that adopts releases.
func newHelmOp(namespace, name, origin string) *addonsv1.HelmOp {
	helmOp := &addonsv1.HelmOp{
		TypeMeta: metav1.TypeMeta{APIVersion: addonsv1.GroupVersion.String(), Kind: apiutil.HelmOpKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Annotations: map[string]string{addonsv1.MigratedFromAnnotation: origin}},
	}
	install(helmOp).TakeOwnership = ptr.To(true)
	install(helmOp).Adoption = addonsv1.AdoptionPolicyWhenUnchanged
	return helmOp
}

// install returns the options of installations, to be set.
func install(helmOp *addonsv1.HelmOp) *addonsv1.InstallOptions {
	if helmOp.Spec.Install == nil {
		helmOp.Spec.Install = &addonsv1.InstallOptions{}
	}
	return helmOp.Spec.Install
}

// upgrade returns the options of upgrades, to be set.
func upgrade(helmOp *addonsv1.HelmOp) *addonsv1.UpgradeOptions {
	if helmOp.Spec.Upgrade == nil {
		helmOp.Spec.Upgrade = &addonsv1.UpgradeOptions{}
	}
	return helmOp.Spec.Upgrade
}

// uninstall returns the options of uninstallations, to be set.
func uninstall(helmOp *addonsv1.HelmOp) *addonsv1.UninstallOptions {
	if helmOp.Spec.Uninstall == nil {
		helmOp.Spec.Uninstall = &addonsv1.UninstallOptions{}
	}
	return helmOp.Spec.Uninstall
}

// Steps of a migration.
const (
	// StepPaused is the step of an object that its tool ignores.
	StepPaused = "Paused"

	// StepDetaching is the step of an object whose deletion has begun.
	StepDetaching = "Detaching"

	// StepReturning is the step of an object that --undo returns to its tool.
	StepReturning = "Returning"

	// StepInstalling is the step of a HelmOp that installs charts over the objects of releases which its tool has
	// forgotten.
	StepInstalling = "Installing"
)

// Step returns the step of a migration in which an object of another tool is, and the name of its HelmOp. Both are
// empty before the first step.
func Step(object metav1.Object) (step, helmOp string) {
	step, helmOp, _ = strings.Cut(object.GetAnnotations()[addonsv1.MigrationAnnotation], " ")
	return step, helmOp
}

// decode reads an object into a type with the fields that the package needs.
func decode(object *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}

// ObjectOf names an object.
func ObjectOf(object *unstructured.Unstructured) Object {
	return Object{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(),
		Name: object.GetName()}
}
