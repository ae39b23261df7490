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
	// errMerge replaces errors of the merging, which quote values.
	errMerge = errors.New("the manifest and the object in the cluster cannot be merged: a field has different types in " +
		"the two")
)

// makePatch returns the patch that gives live all fields of wanted. It is Helm's three-way merge with equal old and new
// manifests: nothing is deleted, so the old manifest is not needed.
func makePatch(ref inventory.Ref, wanted, live map[string]any) (made patch, err error) {
	// The merging panics on some shapes that no API server accepts, but a manifest may have.
	defer func() {
		if recover() != nil {
			made, err = patch{}, errMerge
		}
	}()
	typed, err := scheme.Scheme.New(ref.GroupVersionKind())
	if err != nil {
		return mergePatch(wanted, live)
	}
	lookup, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return patch{}, errMerge
	}
	if lists := ambiguousLists(ref.Kind, wanted, live); len(lists) > 0 {
		return exactPatch(lists, wanted, live, lookup)
	}
	wantedData, liveData, err := marshal(wanted, live)
	if err != nil {
		return patch{}, err
	}
	data, err := strategicpatch.CreateThreeWayMergePatch(emptyObject, wantedData, liveData, lookup, true)
	if err != nil {
		return patch{}, errMerge
	}
	return patch{kind: types.StrategicMergePatchType, data: data}, nil
}

// mergePatch is for kinds without merge keys: their lists are compared and replaced as a whole.
func mergePatch(wanted, live map[string]any) (patch, error) {
	wantedData, liveData, err := marshal(wanted, live)
	if err != nil {
		return patch{}, err
	}
	data, err := jsonmergepatch.CreateThreeWayJSONMergePatch(emptyObject, wantedData, liveData)
	if err != nil {
		return patch{}, errMerge
	}
	return patch{kind: types.MergePatchType, data: data}, nil
}

// exactPatch is for objects with lists that a strategic merge patch cannot handle. It merges these lists and sends them
// as a whole.
func exactPatch(lists []ambiguousList, wanted, live map[string]any,
	lookup strategicpatch.LookupPatchMeta,
) (patch, error) {
	merged, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(runtime.DeepCopyJSON(live),
		runtime.DeepCopyJSON(wanted), lookup)
	if err != nil {
		return patch{}, errMerge
	}
	for _, list := range lists {
		list.put(merged)
	}
	p, err := mergePatch(merged, live)
	// The lists include elements of others. If others add more, the patch must not be applied.
	p.exact = true
	return p, err
}

func marshal(wanted, live map[string]any) (wantedData, liveData []byte, err error) {
	if wantedData, err = json.Marshal(wanted); err != nil {
		return nil, nil, errMerge
	}
	if liveData, err = json.Marshal(live); err != nil {
		return nil, nil, errMerge
	}
	return wantedData, liveData, nil
}

// guard makes the API server refuse the patch, with a conflict, for another object of the same name; and for another
// version of the object if the patch is exact.
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

// encode writes a text as the API does bytes.
func encode(text string) string {
	return base64.StdEncoding.EncodeToString([]byte(text))
}
