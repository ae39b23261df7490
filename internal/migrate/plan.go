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

// Plan is the result of a conversion: what a migration will write.
type Plan struct {
	// Items are sorted by the namespaces and names of their HelmOps.
	Items []Item
}

// Item is a HelmOp and the objects that it replaces.
type Item struct {
	// From are the objects of the other tool. It is empty for plain Helm releases.
	From []Object

	// HelmOp is nil if the objects cannot be converted. A Gap then gives the reason.
	HelmOp *addonsv1.HelmOp

	// Releases are the existing releases.
	Releases []Release

	// Marks are labels and annotations that the Clusters need before the HelmOp is created.
	Marks []Mark

	// Gaps are the settings that the HelmOp cannot express, and the problems to resolve before the migration.
	Gaps []Gap
}

// Object identifies an object of another tool.
type Object struct {
	// The group and the version are needed, because kinds of Fleet have the names of kinds of HelmOp and Cluster API.
	APIVersion, Kind string
	Namespace, Name  string
}

// String returns the object as "Kind namespace/name". It adds the API group for kinds of Fleet that have the name of a
// kind of HelmOp or Cluster API.
func (o Object) String() string {
	kind := o.Kind
	if strings.HasPrefix(o.APIVersion, fleetGroup+"/") {
		kind = "Fleet " + kind
	}
	return kind + " " + o.Namespace + "/" + o.Name
}

// Origin returns the object in the form of the annotation MigratedFromAnnotation.
func (o Object) Origin() string { return o.Kind + "/" + o.Namespace + "/" + o.Name }

// Release is an existing release.
type Release struct {
	// Cluster is the Cluster of Cluster API.
	Cluster types.NamespacedName

	// Owner is the object of the other tool for this release only; the zero Object if there is none.
	Owner Object

	// Name and Namespace are the name and the namespace of the Helm release.
	Name, Namespace string

	// Revision is the newest Helm revision; 0 if the other tool does not store it.
	Revision int64

	// Version is the version of the chart; empty if it is not known. Only a migration from Fleet uses it.
	Version string
}

// Mark is a label or an annotation of a Cluster.
type Mark struct {
	Cluster types.NamespacedName

	// IsLabel is true for a label and false for an annotation.
	IsLabel bool

	Key, Value string
}

// Gap is a setting that a HelmOp cannot express.
type Gap struct {
	// Field is the field of the other tool's object.
	Field string

	// Text says what happens instead, and what the user can do.
	Text string

	// Blocks is true if the user must resolve the gap before the migration.
	Blocks bool

	// Secret is the name of a Secret that resolves the gap, in the namespace of the HelmOp; empty for other gaps.
	Secret string
}

// String returns the gap in one line.
func (g Gap) String() string { return g.Field + ": " + g.Text }

// Origin returns the value of the annotation MigratedFromAnnotation of the HelmOp.
func (i *Item) Origin() string { return i.HelmOp.Annotations[addonsv1.MigratedFromAnnotation] }

// Title returns the name of the item for messages.
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

// Blocked returns the gaps that the user must resolve before the migration.
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

// sort sorts the parts of a Plan.
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

// newHelmOp returns a HelmOp that adopts releases. By default, no other tool creates CustomResourceDefinitions at
// upgrades, and HelmOp does.
func newHelmOp(namespace, name, origin string) *addonsv1.HelmOp {
	helmOp := &addonsv1.HelmOp{
		TypeMeta: metav1.TypeMeta{APIVersion: addonsv1.GroupVersion.String(), Kind: apiutil.HelmOpKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Annotations: map[string]string{addonsv1.MigratedFromAnnotation: origin}},
	}
	install(helmOp).TakeOwnership = ptr.To(true)
	install(helmOp).Adoption = addonsv1.AdoptionPolicyWhenUnchanged
	upgrade(helmOp).CRDs = addonsv1.CRDPolicySkip
	return helmOp
}

// install returns the options of installations for changes. It creates them if they are nil.
func install(helmOp *addonsv1.HelmOp) *addonsv1.InstallOptions {
	if helmOp.Spec.Install == nil {
		helmOp.Spec.Install = &addonsv1.InstallOptions{}
	}
	return helmOp.Spec.Install
}

// upgrade returns the options of upgrades for changes. It creates them if they are nil.
func upgrade(helmOp *addonsv1.HelmOp) *addonsv1.UpgradeOptions {
	if helmOp.Spec.Upgrade == nil {
		helmOp.Spec.Upgrade = &addonsv1.UpgradeOptions{}
	}
	return helmOp.Spec.Upgrade
}

// uninstall returns the options of uninstallations for changes. It creates them if they are nil.
func uninstall(helmOp *addonsv1.HelmOp) *addonsv1.UninstallOptions {
	if helmOp.Spec.Uninstall == nil {
		helmOp.Spec.Uninstall = &addonsv1.UninstallOptions{}
	}
	return helmOp.Spec.Uninstall
}

// These are the steps of a migration.
const (
	// StepPaused is the step of an object that is paused in its tool.
	StepPaused = "Paused"

	// StepDetaching is the step of an object whose deletion has begun.
	StepDetaching = "Detaching"

	// StepReturning is the step of an object that --undo gives back to its tool.
	StepReturning = "Returning"

	// StepInstalling is the step of a HelmOp that installs charts over the objects of releases that the other tool no
	// longer manages.
	StepInstalling = "Installing"
)

// Step returns the current migration step of an object of another tool, and the name of its HelmOp. Both are empty
// before the first step.
func Step(object metav1.Object) (step, helmOp string) {
	step, helmOp, _ = strings.Cut(object.GetAnnotations()[addonsv1.MigrationAnnotation], " ")
	return step, helmOp
}

// decode converts an object to a type with the fields that the package needs.
func decode(object *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}

// ObjectOf returns the Object that identifies an object.
func ObjectOf(object *unstructured.Unstructured) Object {
	return Object{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(),
		Name: object.GetName()}
}
