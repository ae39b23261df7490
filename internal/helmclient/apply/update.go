// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/knownobjects"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// UpdateFunc updates objects. original are the objects in the manifest of the previous revision.
type UpdateFunc func(original, target kube.ResourceList) (*kube.Result, error)

// errComparison is the error of a panic of an update.
var errComparison = errors.New("cannot compare an object with the former Helm revision")

// Guarded turns a panic of an update into an error. Helm calls updates in a goroutine of its own, where a panic would
// end the manager. The computation of a patch panics for some manifests, for example with an empty item in a list.
func Guarded(update UpdateFunc) UpdateFunc {
	return func(original, target kube.ResourceList) (result *kube.Result, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				result, err = &kube.Result{}, fmt.Errorf("%w: %v", errComparison, cause)
			}
		}()
		return update(original, target)
	}
}

// updateAll updates objects. An object that is being deleted, for example by an uninstallation that did not complete,
// accepts the change and then disappears. So updateAll waits until such objects are gone, and updates all objects
// again. The responses of the API server show these objects, so the check itself needs no request. It does not wait for
// a volume that is in use, see isInUse.
func (k *Client) updateAll(original, target kube.ResourceList, update UpdateFunc) (*kube.Result, error) {
	manifests := objectinfo.ManifestsOf(target)
	var created kube.ResourceList
	for {
		k.Progress("applying " + plural.Count(len(target), "object", "objects"))
		result, err := Guarded(update)(original, target)
		result.Created = slices.Concat(created, result.Created)
		deleting := result.Updated.Filter(func(info *resource.Info) bool {
			return isDeletingNow(info, manifests[info])
		})
		if len(deleting) == 0 {
			return result, err
		}
		k.Progress("waiting for the end of deletions")
		if waitErr := k.WaitForDelete(deleting, wholeAction); waitErr != nil {
			return result, errors.Join(err, fmt.Errorf("waiting for objects that are being deleted: %w", waitErr))
		}
		created = result.Created
		for info, manifest := range manifests {
			clearVersion(manifest)
			info.Object = manifest
		}
	}
}

// wholeAction is a timeout that only the end of the action limits.
const wholeAction = time.Duration(math.MaxInt64)

// isDeletingNow reports whether an object was being deleted when it was updated. If the API server refused the update,
// there is no response with the object, so isDeletingNow reads it.
func isDeletingNow(info *resource.Info, manifest runtime.Object) bool {
	if info.Object == manifest {
		info = objectinfo.Copies(kube.ResourceList{info})[0]
		if err := info.Get(); err != nil {
			return false
		}
	}
	return objectinfo.IsDeleting(info) && !isInUse(info)
}

// isInUse reports whether only the protection of volumes that are in use keeps an object. The Pods that use the volume
// may belong to the release, so the wait for its end could last as long as the release.
func isInUse(info *resource.Info) bool {
	object, err := meta.Accessor(info.Object)
	if err != nil || len(object.GetFinalizers()) == 0 {
		return false
	}
	return !slices.ContainsFunc(object.GetFinalizers(), func(finalizer string) bool {
		return finalizer != "kubernetes.io/pvc-protection" && finalizer != "kubernetes.io/pv-protection"
	})
}

// clearVersion removes the resource version that Helm sets in a manifest when it replaces the object. An object with a
// resource version cannot be created.
func clearVersion(manifest runtime.Object) {
	if object, err := meta.Accessor(manifest); err == nil {
		object.SetResourceVersion("")
	}
}

// updateKnown updates objects as Helm does, and in the same order. It does not read an object that changes if it knows
// the content of the object: one patch is enough. The patch requires the known resource version. If the API server
// refuses the patch, Helm updates the object as usual.
func (k *Client) updateKnown(original, target kube.ResourceList) (*kube.Result, error) {
	expected := map[*resource.Info]*knownobjects.Expectation{}
	if !k.RefusesUnowned {
		for _, info := range target {
			if expectation := k.Known.Expected(k.Owner, original.Get(info), info); expectation != nil {
				expected[info] = expectation
			}
		}
	}
	if len(expected) == 0 {
		return k.Client.Update(original, target, false)
	}
	result := &kube.Result{}
	var failed []string
	for _, info := range target {
		one, err := k.updateOne(original, info, expected[info])
		result.Created = append(result.Created, one.Created...)
		result.Updated = append(result.Updated, one.Updated...)
		switch {
		case err == nil:
		case len(one.Updated) == 0:
			// The object cannot be read or created. Helm's update then ends.
			return result, err
		default:
			failed = append(failed, err.Error())
		}
	}
	if len(failed) > 0 {
		// Helm joins the errors of patches in the same way.
		return result, errors.New(strings.Join(failed, " && "))
	}
	return result, nil
}

// updateOne updates one object. expected is nil if its content is not known.
func (k *Client) updateOne(original kube.ResourceList, info *resource.Info,
	expected *knownobjects.Expectation,
) (*kube.Result, error) {
	target := kube.ResourceList{info}
	original = original.Intersect(target)
	if expected == nil {
		return k.Client.Update(original, target, false)
	}
	content, err := expected.Content.MarshalJSON()
	if err != nil {
		return k.Client.Update(original, target, false)
	}
	end, ok := k.Clients.Expect(objectinfo.ReadRequest(info).Name(info.Name).URL().Path, content)
	if !ok {
		return k.Client.Update(original, target, false)
	}
	// With this field in the manifest, the patch has the precondition.
	manifest := info.Object.(*unstructured.Unstructured)
	manifest.SetResourceVersion(expected.Version)
	result, err := k.Client.Update(original, target, false)
	manifest.SetResourceVersion("")
	if isRefused := end(); isRefused {
		k.Log("reading %s %q, because it has changed", info.Mapping.GroupVersionKind.Kind, info.Name)
		return k.Client.Update(original, target, false)
	}
	return result, err
}
