/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
)

// immutable matches refusals that end only when the object is made anew.
var immutable = regexp.MustCompile(`is immutable|may not change once set|updates to statefulset spec for fields other than`)

// holdsData are the kinds whose deletion destroys what no chart brings back. They are not deleted, whatever is forced.
var holdsData = []string{"PersistentVolumeClaim", "PersistentVolume", "Namespace", crdKind}

// forceUpdate is the update that "force" asks for: Helm replaces objects as a whole, and those that the cluster refuses to
// change even so are deleted and made anew.
func (k *kubeClient) forceUpdate(original, target kube.ResourceList) (*kube.Result, error) {
	result, err := k.Client.Update(original, target, true)
	if err == nil || !immutable.MatchString(err.Error()) {
		return result, err
	}
	refused, checkErr := refusedAsImmutable(target, err.Error())
	if checkErr != nil || len(refused) == 0 {
		return result, errors.Join(err, checkErr)
	}
	k.progress(fmt.Sprintf("deleting %d objects that cannot be changed", len(refused)))
	if _, errs := k.deleteAll(refused, metav1.DeletePropagationBackground); len(errs) > 0 {
		return result, errors.Join(errs...)
	}
	// With other objects: waiting overwrites them.
	if err := k.WaitForDelete(copyInfos(refused), k.remaining(DefaultTimeout)); err != nil {
		return result, fmt.Errorf("waiting until objects that cannot be changed are deleted: %w", err)
	}
	return k.Client.Update(original, target, true)
}

// refusedAsImmutable returns those objects which the cluster refuses to change. Text is what it said about all of them;
// each that it names is tried once more, without effect: there may be another one of the name.
func refusedAsImmutable(target kube.ResourceList, text string) (kube.ResourceList, error) {
	var refused kube.ResourceList
	for _, info := range target {
		// Else it would be created as one that existed before.
		if object, err := meta.Accessor(info.Object); err == nil {
			object.SetResourceVersion("")
		}
		kind := info.Mapping.GroupVersionKind
		if !strings.Contains(text, fmt.Sprintf("%s %q is invalid", kind.GroupKind(), info.Name)) {
			continue
		}
		helper := resource.NewHelper(info.Client, info.Mapping).WithFieldManager(fieldManager).DryRun(true)
		_, err := helper.Replace(info.Namespace, info.Name, true, info.Object.DeepCopyObject())
		if !apierrors.IsInvalid(err) || !immutable.MatchString(err.Error()) {
			continue
		}
		if slices.Contains(holdsData, kind.Kind) {
			return nil, fmt.Errorf("%s %q is not deleted, although force is set, because that would destroy data", kind.Kind, info.Name)
		}
		refused = append(refused, info)
	}
	return refused, nil
}

func copyInfos(infos kube.ResourceList) kube.ResourceList {
	copied := make(kube.ResourceList, 0, len(infos))
	for _, info := range infos {
		one := *info
		one.Object = info.Object.DeepCopyObject()
		copied = append(copied, &one)
	}
	return copied
}
