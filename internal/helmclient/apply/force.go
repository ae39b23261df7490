// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// replaceable lists the kinds whose objects may be deleted and re-created: their content is in the manifest, or is
// restored automatically. The deletion of other objects may destroy data: a custom resource may represent a database,
// and a Namespace or a CustomResourceDefinition holds objects of other users.
var replaceable = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}:                                              true,
	{Kind: "Secret"}:                                                 true,
	{Kind: "Service"}:                                                true,
	{Kind: "ReplicationController"}:                                  true,
	{Group: "apps", Kind: "DaemonSet"}:                               true,
	{Group: "apps", Kind: "Deployment"}:                              true,
	{Group: "apps", Kind: "ReplicaSet"}:                              true,
	statefulSet:                                                      true,
	{Group: "batch", Kind: "Job"}:                                    true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:                     true,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:               true,
	{Group: "policy", Kind: "PodDisruptionBudget"}:                   true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:              true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                  true,
}

// statefulSet is replaceable unless its deletion also deletes its PersistentVolumeClaims.
var statefulSet = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}

// forceUpdate updates objects with the option force. Helm replaces whole objects. Objects that the cluster still
// refuses to change are deleted and re-created.
func (k *Client) forceUpdate(original, target kube.ResourceList) (*kube.Result, error) {
	result, err := k.Client.Update(original, target, true)
	if err == nil || !helmerr.Immutable.MatchString(err.Error()) {
		return result, err
	}
	refused, checkErr := k.refusedAsImmutable(target, err.Error())
	if checkErr != nil || len(refused) == 0 {
		return result, errors.Join(err, checkErr)
	}
	k.Progress(fmt.Sprintf("deleting %s that cannot be changed in place", plural.Count(len(refused), "object", "objects")))
	if _, errs := k.DeleteAll(refused, Deletion{Policy: metav1.DeletePropagationBackground}); len(errs) > 0 {
		return result, errors.Join(errs...)
	}
	if err := k.WaitForDelete(refused, model.DefaultTimeout); err != nil {
		return result, fmt.Errorf("waiting for the deletion of objects that cannot be changed in place: %w", err)
	}
	again, err := k.Client.Update(original, target, true)
	if again == nil {
		return result, err
	}
	// After a failure, Helm may delete all created objects. The re-created objects existed before.
	recreated := again.Created.Intersect(refused)
	again.Updated = append(again.Updated.Difference(result.Created), recreated...)
	again.Created = append(result.Created, again.Created.Difference(refused)...)
	return again, err
}

// refusedAsImmutable returns the objects that the cluster refuses to change. text is the error of the update. The text
// names objects, and two objects may have the same name. So refusedAsImmutable repeats the update of each named object
// as a dry run. It returns an error if an object must not be deleted.
func (k *Client) refusedAsImmutable(target kube.ResourceList, text string) (kube.ResourceList, error) {
	var refused kube.ResourceList
	for _, info := range target {
		clearVersion(info.Object)
		kind := info.Mapping.GroupVersionKind
		if !strings.Contains(text, fmt.Sprintf("%s %q is invalid", kind.GroupKind(), info.Name)) {
			continue
		}
		helper := resource.NewHelper(info.Client, info.Mapping).WithFieldManager(model.FieldManager).DryRun(true)
		_, err := helper.Replace(info.Namespace, info.Name, true, info.Object.DeepCopyObject())
		if !apierrors.IsInvalid(err) || !helmerr.Immutable.MatchString(err.Error()) {
			continue
		}
		reason, err := k.ReasonToKeep(info)
		if err != nil {
			return nil, fmt.Errorf("checking whether %s %q, which cannot be changed in place, may be deleted: %w", kind.Kind,
				info.Name, err)
		}
		if reason != "" {
			return nil, fmt.Errorf("%s %q cannot be changed in place, and force does not delete it: %s", kind.Kind, info.Name,
				reason)
		}
		refused = append(refused, info)
	}
	return refused, nil
}

// ReasonToKeep returns why an object must not be deleted and re-created; empty if it may be deleted.
func (k *Client) ReasonToKeep(info *resource.Info) (string, error) {
	kind := info.Mapping.GroupVersionKind.GroupKind()
	if !replaceable[kind] {
		return "its deletion could destroy data", nil
	}
	live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if err != nil {
		return "", helmerr.IgnoreNotFound(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return "", err
	}
	object := &unstructured.Unstructured{Object: content}
	if why := k.WhyKept(object.GetAnnotations()); why != "" {
		return why, nil
	}
	if inventory.IsKept(object.GetAnnotations()) {
		return "its annotation " + kube.ResourcePolicyAnno + " forbids the deletion", nil
	}
	retention, _, err := unstructured.NestedString(content, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
	if err != nil {
		return "", err
	}
	if kind == statefulSet && retention != "" &&
		retention != string(appsv1.RetainPersistentVolumeClaimRetentionPolicyType) {
		return "its PersistentVolumeClaims and their data would be deleted, too", nil
	}
	return "", nil
}
