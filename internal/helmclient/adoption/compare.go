// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// maxNamed is the largest number of objects in a text.
const maxNamed = 10

// Content is what a Helm revision installs.
type Content struct {
	// Chart is the metadata of the chart.
	Chart *chart.Metadata
	// Manifest has the objects as YAML documents.
	Manifest string
	// Hooks are the hooks of the chart, tests included.
	Hooks []*release.Hook
}

// Difference is one change that the adoption of a release would make.
type Difference struct {
	// What names the object or hook, for example "Deployment kube-system/coredns" or "hook Job kube-system/migrate".
	What string
	// How is the change: "added", "changed", "removed", or an explanation. It contains no values.
	How string
}

// The usual ways in which an adoption would change an object.
const (
	Added   = "added"
	Changed = "changed"
	Removed = "removed"
)

// NamespaceOf returns the namespace of an object, given its kind and the namespace in the manifest; empty if the kind
// is cluster-scoped.
type NamespaceOf func(kind schema.GroupVersionKind, named string) string

// Decode returns the objects of a manifest.
type Decode func(manifest string) ([]*unstructured.Unstructured, error)

// Compare returns the differences between the content of a record and the content that HelmOp would render in its
// place. The order of the result does not depend on the order of the objects.
//
// It ignores the labels and annotations with which Flux and Fleet mark the objects of their releases. These labels and
// annotations remain on the objects until the next upgrade.
func Compare(recorded, rendered Content, decode Decode, namespaceOf NamespaceOf) ([]Difference, error) {
	var differences []Difference
	if before, after := titleOf(recorded.Chart), titleOf(rendered.Chart); before != after {
		differences = append(differences, Difference{What: "chart " + before, How: "becomes " + after})
	}
	before, err := decode.objectsOf(recorded.Manifest, namespaceOf)
	if err != nil {
		return nil, fmt.Errorf("the recorded manifest: %w", err)
	}
	after, err := decode.objectsOf(rendered.Manifest, namespaceOf)
	if err != nil {
		return nil, fmt.Errorf("the rendered manifest: %w", err)
	}
	differences = append(differences, compare(before, after)...)
	if before, err = decode.hooksOf(recorded.Hooks, namespaceOf); err != nil {
		return nil, fmt.Errorf("the recorded hooks: %w", err)
	}
	if after, err = decode.hooksOf(rendered.Hooks, namespaceOf); err != nil {
		return nil, fmt.Errorf("the rendered hooks: %w", err)
	}
	return append(differences, compare(before, after)...), nil
}

// fluxDigits is the number of digits of a digest in a chart version that Flux has changed.
const fluxDigits = 12

// IsFluxVersion reports whether a recorded version is the version of a chart with the mark of Flux. For a chart of an
// OCIRepository, Flux replaces the build metadata with the first digits of the digest of the artifact. digest is the
// digest of the artifact with the chart.
func IsFluxVersion(recorded, version, digest string) bool {
	digits := digest[strings.IndexByte(digest, ':')+1:]
	parsed, err := semver.NewVersion(version)
	if err != nil || len(digits) < fluxDigits {
		return false
	}
	marked, err := parsed.SetMetadata(digits[:fluxDigits])
	return err == nil && marked.String() == recorded
}

// Summarize describes differences in one line. It names at most maxNamed objects and hooks.
func Summarize(differences []Difference) string {
	texts := make([]string, 0, len(differences))
	for _, d := range differences {
		texts = append(texts, fmt.Sprintf("%s (%s)", d.What, d.How))
	}
	return plural.Few(texts, maxNamed)
}

func titleOf(metadata *chart.Metadata) string {
	if metadata == nil {
		return "without a name"
	}
	return metadata.Name + " " + metadata.Version
}

// compare compares objects by their keys.
func compare(before, after map[string][]any) []Difference {
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	var differences []Difference
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		d := Difference{What: key[strings.IndexByte(key, ' ')+1:]}
		switch {
		case before[key] == nil:
			d.How = Added
		case after[key] == nil:
			d.How = Removed
		case !equality.Semantic.DeepEqual(before[key], after[key]):
			d.How = Changed
		default:
			continue
		}
		differences = append(differences, d)
	}
	return differences
}

// objectsOf returns the normalized objects of a manifest. A key is the group of an object and its name for messages.
func (decode Decode) objectsOf(manifest string, namespaceOf NamespaceOf) (map[string][]any, error) {
	objects, err := decode(manifest)
	if err != nil {
		return nil, err
	}
	found := map[string][]any{}
	for _, object := range objects {
		object.SetNamespace(namespaceOf(object.GroupVersionKind(), object.GetNamespace()))
		key := keyOf(object, "")
		found[key] = append(found[key], normalize(object))
	}
	return found, nil
}

// hooksOf returns the normalized hooks: their objects, and when Helm runs and deletes them.
func (decode Decode) hooksOf(hooks []*release.Hook, namespaceOf NamespaceOf) (map[string][]any, error) {
	found := map[string][]any{}
	for _, hook := range hooks {
		objects, err := decode(hook.Manifest)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			object.SetNamespace(namespaceOf(object.GroupVersionKind(), object.GetNamespace()))
			key := keyOf(object, "hook ")
			found[key] = append(found[key], []any{
				normalize(object), sorted(hook.Events), sorted(deletePoliciesOf(hook)), hook.Weight,
			})
		}
	}
	return found, nil
}

// deletePoliciesOf returns when Helm deletes the object of a hook. When Helm runs a hook without a policy, it sets the
// default policy and then stores this policy in the record.
func deletePoliciesOf(hook *release.Hook) []release.HookDeletePolicy {
	if len(hook.DeletePolicies) == 0 {
		return []release.HookDeletePolicy{release.HookBeforeHookCreation}
	}
	return hook.DeletePolicies
}

func sorted[T cmp.Ordered](list []T) []T { return slices.Sorted(slices.Values(list)) }

func keyOf(object *unstructured.Unstructured, prefix string) string {
	ref := inventory.Of(object)
	return ref.Group + " " + prefix + ref.String()
}

// normalize returns the content of an object without the parts that have no effect in the cluster.
func normalize(object *unstructured.Unstructured) any {
	content, _ := withoutNull(object.Object).(map[string]any)
	metadata, _ := content["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		entries, ok := metadata[field].(map[string]any)
		if !ok {
			continue
		}
		maps.DeleteFunc(entries, func(key string, _ any) bool { return isMark(key) })
		if len(entries) == 0 {
			delete(metadata, field)
		}
	}
	return content
}

// withoutNull returns a value without the null fields of its maps. The API server treats null fields as not set.
func withoutNull(value any) any {
	switch typed := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(typed))
		for key, field := range typed {
			if field != nil {
				kept[key] = withoutNull(field)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(typed))
		for i := range typed {
			kept[i] = withoutNull(typed[i])
		}
		return kept
	default:
		return value
	}
}

// marks are the keys of the labels and annotations that the helm-controller of Flux and the agent of Fleet add to each
// object of a release. An entry that ends with a slash is a prefix of keys. These labels and annotations name the
// object from which the release was made. Nothing in the cluster uses them.
var marks = []string{"helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace", "objectset.rio.cattle.io/"}

// isMark reports whether the key of a label or an annotation is a mark.
func isMark(key string) bool {
	return slices.ContainsFunc(marks, func(mark string) bool {
		return key == mark || strings.HasSuffix(mark, "/") && strings.HasPrefix(key, mark)
	})
}
