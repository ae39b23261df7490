// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/kube"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
)

// ErrObjectsExist means that objects which were assumed to be missing may exist. The action has deleted the objects
// that it created. The caller repeats the action.
var ErrObjectsExist = errors.New("objects of the chart may exist already")

// assumable are the kinds of objects that an installation may create before all other objects. Such an object runs
// nothing, so its deletion right after its creation has no effect on others.
var assumable = map[schema.GroupKind]bool{
	{Group: rbacv1.GroupName, Kind: "ClusterRole"}:        true,
	{Group: rbacv1.GroupName, Kind: "ClusterRoleBinding"}: true,
}

// assumedObjects are the objects of an installation that are assumed to be missing.
type assumedObjects struct {
	// infos are the objects, in the order of the manifest.
	infos kube.ResourceList
	// manifests has the objects that were created, as they are in the manifest; nil before the creation.
	manifests map[*resource.Info]runtime.Object
	// failed is the error of a creation after which the installation must fail.
	failed error
}

// AssumeMissing makes an installation assume that its ClusterRoles and ClusterRoleBindings do not exist, unless this
// assumption was wrong before. Helm then does not read them. After the record was created, the caller must call
// [Client.CreateAssumed].
func (k *Client) AssumeMissing() {
	if !k.Clients.Conn.Existing.Has(k.Owner.String()) {
		k.assumed = &assumedObjects{}
	}
}

// AssumesMissing reports whether objects of the manifest are assumed to be missing.
func (k *Client) AssumesMissing() bool { return k.assumed != nil && len(k.assumed.infos) > 0 }

// AssumeNothing ends the assumption of [Client.AssumeMissing].
func (k *Client) AssumeNothing() {
	k.assumed = nil
	k.Clients.ExpectMissing(nil)
}

// noteAssumed stores which objects of a manifest are assumed to be missing. Reads of these objects send no request
// until the next write.
func (k *Client) noteAssumed(resources kube.ResourceList) {
	if k.assumed == nil || k.assumed.manifests != nil {
		return
	}
	var infos kube.ResourceList
	var paths []string
	for _, info := range resources {
		if assumable[info.Mapping.GroupVersionKind.GroupKind()] && info.Name != "" {
			infos.Append(info)
			paths = append(paths, objectinfo.ReadRequest(info).Name(info.Name).URL().Path)
		}
	}
	if !k.Clients.ExpectMissing(paths) {
		infos = nil
	}
	k.assumed.infos = infos
}

// CreateAssumed creates the objects that are assumed to be missing. Its caller has just created the record. So if this
// process ends, the record names all objects that the action created. CreateAssumed returns ErrObjectsExist if the
// cluster refuses an object, for example because the object exists. Then the caller deletes the record.
func (k *Client) CreateAssumed() error {
	if !k.AssumesMissing() {
		k.AssumeNothing()
		return nil
	}
	assumed := k.assumed
	err := k.createAll(assumed)
	if err == nil {
		return nil
	}
	if isRefusal(err) {
		if deleteErr := k.deleteAssumed(assumed); deleteErr == nil {
			k.AssumeNothing()
			k.Clients.Conn.Existing.Add(k.Owner.String())
			return fmt.Errorf("%w: %w", ErrObjectsExist, err)
		}
	}
	// Objects of this action may exist, so the record must stay. Helm records the failure.
	assumed.failed = err
	return nil
}

// createAll creates the objects, one kind after the other, as Helm does. It ends after a kind with a failure.
func (k *Client) createAll(assumed *assumedObjects) error {
	assumed.manifests = map[*resource.Info]runtime.Object{}
	for rest := assumed.infos; len(rest) > 0; rest = rest[objectinfo.EndOfKind(rest):] {
		infos := rest[:objectinfo.EndOfKind(rest)]
		manifests, errs := objectinfo.ManifestsOf(infos), make([]error, len(infos))
		var group errgroup.Group
		for i, info := range infos {
			group.Go(func() error {
				_, errs[i] = k.Client.Create(kube.ResourceList{info})
				return nil
			})
		}
		_ = group.Wait()
		for i, info := range infos {
			if errs[i] == nil {
				assumed.manifests[info] = manifests[info]
			}
		}
		if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
			return firstUncertain(errs)
		}
	}
	return nil
}

// firstUncertain returns the first error that is not a refusal, or the first error if all are refusals.
func firstUncertain(errs []error) error {
	var first error
	for _, err := range errs {
		switch {
		case err == nil:
		case !isRefusal(err):
			return err
		case first == nil:
			first = err
		}
	}
	return first
}

// isRefusal reports whether the cluster has certainly not created an object.
func isRefusal(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}

// deleteAssumed deletes the objects that createAll created. It deletes an object only if the object has the UID that
// the cluster returned.
func (k *Client) deleteAssumed(assumed *assumedObjects) error {
	for info := range assumed.manifests {
		object, err := meta.Accessor(info.Object)
		if err != nil {
			return err
		}
		_, err = deleteIn(info, metav1.DeletePropagationBackground, object.GetUID(), "")
		if err := helmerr.IgnoreNotFound(err); err != nil {
			return err
		}
	}
	return nil
}

// withoutAssumed returns the objects that CreateAssumed has not created. The error is the failure of CreateAssumed.
func (k *Client) withoutAssumed(resources kube.ResourceList) (kube.ResourceList, error) {
	if k.assumed == nil {
		return resources, nil
	}
	return resources.Filter(func(info *resource.Info) bool { return k.assumed.manifests[info] == nil }), k.assumed.failed
}

// manifestsOf returns the objects as they are in the manifest, also the objects that CreateAssumed has created.
func (k *Client) manifestsOf(infos kube.ResourceList) map[*resource.Info]runtime.Object {
	manifests := objectinfo.ManifestsOf(infos)
	if k.assumed == nil {
		return manifests
	}
	for info, manifest := range k.assumed.manifests {
		if manifests[info] != nil {
			manifests[info] = manifest
		}
	}
	return manifests
}
