// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"encoding/base64"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

var (
	emptyObject = []byte("{}")
	// errMerge replaces errors of the merge functions, which quote values.
	errMerge = errors.New("the manifest and the object in the cluster cannot be merged: a field has different types in " +
		"the two")
)

// makePatch returns the patch that sets all fields of desired in live. It is Helm's three-way merge with the same
// manifest as old and new manifest. The old manifest would only be needed to delete fields.
func makePatch(ref inventory.Ref, desired, live map[string]any) (made patch, err error) {
	// The merge functions panic for some malformed objects that a manifest may contain. No API server accepts such
	// objects.
	defer func() {
		if recover() != nil {
			made, err = patch{}, errMerge
		}
	}()
	typed, err := scheme.Scheme.New(ref.GroupVersionKind())
	if err != nil {
		return mergePatch(desired, live)
	}
	lookup, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return patch{}, errMerge
	}
	if lists := ambiguousLists(ref.Kind, desired, live); len(lists) > 0 {
		return exactPatch(lists, desired, live, lookup)
	}
	desiredData, liveData, err := marshal(desired, live)
	if err != nil {
		return patch{}, err
	}
	data, err := strategicpatch.CreateThreeWayMergePatch(emptyObject, desiredData, liveData, lookup, true)
	if err != nil {
		return patch{}, errMerge
	}
	return patch{kind: types.StrategicMergePatchType, data: data}, nil
}

// mergePatch returns a patch for kinds without merge keys. It compares and replaces their lists as a whole.
func mergePatch(desired, live map[string]any) (patch, error) {
	desiredData, liveData, err := marshal(desired, live)
	if err != nil {
		return patch{}, err
	}
	data, err := jsonmergepatch.CreateThreeWayJSONMergePatch(emptyObject, desiredData, liveData)
	if err != nil {
		return patch{}, errMerge
	}
	return patch{kind: types.MergePatchType, data: data}, nil
}

// exactPatch returns a patch for objects with lists that a strategic merge patch cannot handle. It merges these lists
// and sends them as a whole.
func exactPatch(lists []ambiguousList, desired, live map[string]any,
	lookup strategicpatch.LookupPatchMeta,
) (patch, error) {
	merged, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(runtime.DeepCopyJSON(live),
		runtime.DeepCopyJSON(desired), lookup)
	if err != nil {
		return patch{}, errMerge
	}
	for _, list := range lists {
		list.put(merged)
	}
	p, err := mergePatch(merged, live)
	// The lists include elements of other clients. If other clients add more elements meanwhile, the API server must
	// refuse the patch.
	p.exact = true
	return p, err
}

func marshal(desired, live map[string]any) (desiredData, liveData []byte, err error) {
	if desiredData, err = json.Marshal(desired); err != nil {
		return nil, nil, errMerge
	}
	if liveData, err = json.Marshal(live); err != nil {
		return nil, nil, errMerge
	}
	return desiredData, liveData, nil
}

// guard adds conditions to a patch: the API server rejects it with a conflict if the object was re-created or, for an
// exact patch, changed.
func (p *patch) guard(live *unstructured.Unstructured) error {
	var fields map[string]any
	if err := json.Unmarshal(p.data, &fields); err != nil {
		return errMerge
	}
	metadata := child(fields, metadataField)
	metadata["uid"] = string(live.GetUID())
	if p.exact {
		metadata["resourceVersion"] = live.GetResourceVersion()
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return errMerge
	}
	p.data = data
	return nil
}

// isSecret reports whether a kind is Secret.
func isSecret(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "" && gvk.Kind == "Secret"
}

// encode encodes a text in the form in which the API encodes bytes.
func encode(text string) string {
	return base64.StdEncoding.EncodeToString([]byte(text))
}
