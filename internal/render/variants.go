// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/labels"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// MaxNamespaceMetadata is the largest number of labels, and of annotations, in install.namespaceMetadata. The API has
// the same limit for each override. It is the only limit that merged valid options can exceed: maps are merged, and all
// other values are replaced.
const MaxNamespaceMetadata = 64

// Variants are the settings of a HelmOp that differ between Clusters: the compiled overrides and
// refsByKubernetesVersion of its spec. They are safe for concurrent use.
type Variants struct {
	spec      *addonsv1.HelmOpSpec
	selectors []labels.Selector
	ranges    []*semver.Constraints

	// options are the options of the spec as a map. override are the options of each override; empty for an override
	// without options.
	options  map[string]any
	override []map[string]any

	mu sync.Mutex
	// merged caches the merged options by the overrides that apply: many Clusters have the same overrides.
	merged map[string]addonsv1.ReleaseOptions
}

// variant is the variant for one Cluster.
type variant struct {
	// Ref is the reference to the artifact in the repository. isSource is true if it is the reference in spec.source.
	Ref      addonsv1.ArtifactReference
	isSource bool

	// Options are the options of the spec, merged with the options of the overrides that apply. They are shared: do not
	// change them.
	Options addonsv1.ReleaseOptions

	// overrides are the indexes of the overrides that apply, in ascending order; nil if none applies.
	overrides []int
}

// ReferredArtifact is an artifact to which a HelmOp refers in addition to spec.source, with the first field that
// contains the reference.
type ReferredArtifact struct {
	addonsv1.ArtifactReference
	Field string
}

// VariantError is the error of an entry in spec.overrides or spec.refsByKubernetesVersion.
type VariantError struct {
	field string
	err   error
}

// Error implements error.
func (e *VariantError) Error() string { return e.field + ": " + e.err.Error() }

// Unwrap implements the interface of errors.Is.
func (e *VariantError) Unwrap() error { return e.err }

// NewVariants validates and compiles the overrides and refsByKubernetesVersion of a spec. Its
// errors are of type *VariantError.
func NewVariants(spec *addonsv1.HelmOpSpec) (*Variants, error) {
	v := &Variants{spec: spec, merged: map[string]addonsv1.ReleaseOptions{}}
	var err error
	for i := range spec.Overrides {
		o := &spec.Overrides[i]
		selector, err := selection.Compile(&o.ClusterSelector)
		if err != nil {
			return nil, &VariantError{overrideField(i, o) + ".clusterSelector", err}
		}
		options, err := optionsMap(&o.ReleaseOptions)
		if err != nil {
			return nil, &VariantError{overrideField(i, o), err}
		}
		v.selectors, v.override = append(v.selectors, selector), append(v.override, options)
	}
	for i := range spec.RefsByKubernetesVersion {
		constraint, err := semver.NewConstraint(spec.RefsByKubernetesVersion[i].KubernetesVersion)
		if err != nil {
			return nil, &VariantError{fmt.Sprintf("spec.refsByKubernetesVersion[%d].kubernetesVersion", i),
				fmt.Errorf("not a version range: %w", err)}
		}
		v.ranges = append(v.ranges, constraint)
	}
	if len(spec.Overrides) > 0 {
		if v.options, err = optionsMap(&spec.ReleaseOptions); err != nil {
			return nil, &VariantError{"spec", err}
		}
	}
	return v, nil
}

// overrideField returns the field of an override for messages.
func overrideField(i int, o *addonsv1.Override) string {
	return fmt.Sprintf("spec.overrides[%d] (%s)", i, o.Name)
}

// Of returns the variant for a Cluster with these labels and this Kubernetes version. An empty or malformed version is
// in no range. Errors of Of have the type *VariantError.
func (v *Variants) Of(clusterLabels map[string]string, version string) (variant, error) {
	result := variant{Ref: v.refByVersion(version), Options: v.spec.ReleaseOptions}
	var optional []int
	for i, selector := range v.selectors {
		if !selector.Matches(labels.Set(clusterLabels)) {
			continue
		}
		result.overrides = append(result.overrides, i)
		if ref := v.spec.Overrides[i].Ref; ref != nil {
			result.Ref = *ref
		}
		if len(v.override[i]) > 0 {
			optional = append(optional, i)
		}
	}
	result.isSource = result.Ref == v.spec.Source.Ref
	var err error
	if len(optional) > 0 {
		result.Options, err = v.mergedOptions(optional)
	}
	return result, err
}

// refByVersion returns the reference of the first range that contains a version. If there is none, it returns the
// reference of the source.
func (v *Variants) refByVersion(version string) addonsv1.ArtifactReference {
	if len(v.ranges) == 0 {
		return v.spec.Source.Ref
	}
	if parsed := parseVersion(version); parsed != nil {
		for i, constraint := range v.ranges {
			if constraint.Check(parsed) {
				return v.spec.RefsByKubernetesVersion[i].Ref
			}
		}
	}
	return v.spec.Source.Ref
}

// mergedOptions merges the options of some overrides into the options of the spec.
func (v *Variants) mergedOptions(applied []int) (addonsv1.ReleaseOptions, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := fmt.Sprint(applied)
	if options, ok := v.merged[key]; ok {
		return options, nil
	}
	all := v.options
	for _, i := range applied {
		all = overlay(all, v.override[i])
	}
	last := applied[len(applied)-1]
	field := overrideField(last, &v.spec.Overrides[last])
	raw, err := json.Marshal(all)
	if err != nil {
		return addonsv1.ReleaseOptions{}, &VariantError{field, err}
	}
	var options addonsv1.ReleaseOptions
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&options); err != nil {
		return addonsv1.ReleaseOptions{}, &VariantError{field, err}
	}
	if err := checkMerged(&options); err != nil {
		return addonsv1.ReleaseOptions{}, &VariantError{field, err}
	}
	v.merged[key] = options
	return options, nil
}

// checkMerged returns an error if merged options exceed a limit although each part is valid.
func checkMerged(options *addonsv1.ReleaseOptions) error {
	if options.Install == nil || options.Install.NamespaceMetadata == nil {
		return nil
	}
	metadata := options.Install.NamespaceMetadata
	if n := max(len(metadata.Labels), len(metadata.Annotations)); n > MaxNamespaceMetadata {
		return fmt.Errorf("after the overrides are merged, install.namespaceMetadata has %d labels or annotations; at "+
			"most %d are allowed",
			n, MaxNamespaceMetadata)
	}
	return nil
}

// overlay merges one map over another. It does not change its arguments. Maps merge at every depth; other values are
// replaced.
func overlay(base, over map[string]any) map[string]any {
	result := maps.Clone(base)
	if result == nil {
		result = map[string]any{}
	}
	for key, value := range over {
		below, isMap := result[key].(map[string]any)
		above, areMaps := value.(map[string]any)
		if isMap && areMaps {
			value = overlay(below, above)
		}
		result[key] = value
	}
	return result
}

// optionsMap converts options to a map with only the fields that are set.
func optionsMap(options *addonsv1.ReleaseOptions) (map[string]any, error) {
	raw, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	var set map[string]any
	return set, json.Unmarshal(raw, &set)
}

// References returns the distinct references except the reference of the source, in the order of the spec. References
// of overrides are first.
func (v *Variants) References() []ReferredArtifact {
	known := map[addonsv1.ArtifactReference]bool{v.spec.Source.Ref: true}
	var found []ReferredArtifact
	add := func(ref addonsv1.ArtifactReference, field string) {
		if !known[ref] {
			known[ref] = true
			found = append(found, ReferredArtifact{ref, field})
		}
	}
	for i := range v.spec.Overrides {
		if ref := v.spec.Overrides[i].Ref; ref != nil {
			add(*ref, overrideField(i, &v.spec.Overrides[i])+".ref")
		}
	}
	for i := range v.spec.RefsByKubernetesVersion {
		add(v.spec.RefsByKubernetesVersion[i].Ref, fmt.Sprintf("spec.refsByKubernetesVersion[%d].ref", i))
	}
	return found
}

// digest returns the digest of all variants; empty if there are none.
func (v *Variants) digest() (string, error) {
	if len(v.spec.Overrides)+len(v.spec.RefsByKubernetesVersion) == 0 {
		return "", nil
	}
	return apiutil.DigestOf(v.spec.Overrides, v.spec.RefsByKubernetesVersion)
}
