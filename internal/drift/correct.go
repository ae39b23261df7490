// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
)

// maxPatches is the largest number of tries to patch an object whose status changes.
const maxPatches = 3

// Correct corrects one difference that [Compare] found, usually with one request. It creates a missing object, or
// patches only the differing fields. It does not delete. If the object was changed, deleted or re-created after the
// comparison, the error is a conflict (apierrors.IsConflict): the caller must compare again. A change of only the
// status does not matter. The error is an [*ObjectError].
func Correct(ctx context.Context, c Cluster, d Difference) error {
	if d.Owner != "" {
		return &ObjectError{Ref: d.Ref, Err: fmt.Errorf("not corrected: the object now belongs to release %s", d.Owner)}
	}
	if d.Refused != nil {
		return d.Refused
	}
	if err := correct(ctx, c, d); err != nil {
		return describe(d.Ref, err)
	}
	return nil
}

func correct(ctx context.Context, c Cluster, d Difference) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	mapping, err := c.Mapper.RESTMapping(d.Ref.GroupVersionKind().GroupKind(), d.Ref.Version)
	if err != nil {
		return err
	}
	resource := resourceClient(client, mapping, d.Ref.Namespace)
	var stale bool
	switch {
	case d.desired != nil:
		_, err = resource.Create(ctx, d.desired, metav1.CreateOptions{FieldManager: fieldManager})
		stale = apierrors.IsAlreadyExists(err)
	case len(d.patch) > 0:
		err = d.send(ctx, resource)
		stale = isStale(err)
	default:
		return errors.New("the difference was not returned by a comparison")
	}
	if stale {
		return apierrors.NewConflict(mapping.Resource.GroupResource(), d.Ref.Name,
			errors.New("the object changed after it was compared"))
	}
	return err
}

// send sends the patch of a difference. The API server refuses the patch if the object has another resource version
// than the compared object. If nothing but the status changed, send tries again with the current resource version.
func (d Difference) send(ctx context.Context, resource dynamic.ResourceInterface) error {
	version := d.version
	for try := 1; ; try++ {
		data, err := withVersion(d.patch, version)
		if err != nil {
			return err
		}
		_, err = resource.Patch(ctx, d.Ref.Name, d.patchType, data, metav1.PatchOptions{FieldManager: fieldManager})
		if !apierrors.IsConflict(err) || try == maxPatches {
			return err
		}
		live, readErr := resource.Get(ctx, d.Ref.Name, metav1.GetOptions{})
		if readErr != nil {
			return readErr
		}
		if live.GetResourceVersion() == version || contentOf(live) != d.content {
			return err
		}
		version = live.GetResourceVersion()
	}
}

// withVersion returns a patch that the API server refuses if the object has another resource version.
func withVersion(patch []byte, version string) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, errMerge
	}
	child(fields, metadataField)["resourceVersion"] = version
	return json.Marshal(fields)
}

// contentOf returns a digest of an object without its status. It also omits the metadata that each write changes.
func contentOf(object *unstructured.Unstructured) [sha256.Size]byte {
	content := maps.Clone(object.Object)
	delete(content, "status")
	if metadata, ok := content[metadataField].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
			delete(metadata, field)
		}
		content[metadataField] = metadata
	}
	// The object was decoded from JSON.
	data, _ := json.Marshal(content)
	return sha256.Sum256(data)
}
