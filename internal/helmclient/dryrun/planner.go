// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kblabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/leftovers"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const (
	// manyPlanned is the smallest number of objects of one kind in one namespace for which a plan uses a list.
	manyPlanned = 3
	// plannedAtOnce is the number of objects that a plan checks at the same time.
	plannedAtOnce = 4
)

// noDryRun matches the response of an API server to a dry run that a webhook does not support.
var noDryRun = regexp.MustCompile(`does not support dry run|BadRequest.*dry.?run`)

// planner plans how a manifest would be applied. It runs Helm's own update of each object in an [apply.Client] whose
// requests change nothing, see connections.Connection.PlanConfig.
type planner struct {
	*apply.Client
	// Force and TakeOwnership are the options of the action. IsInstall means an installation.
	Force, TakeOwnership, IsInstall bool
	// NewNamespaces are the namespaces that do not exist and would be created.
	NewNamespaces map[string]bool
	// NewKinds are the kinds of CRDs that would be created: the cluster does not serve them yet.
	NewKinds map[schema.GroupKind]bool

	// Changes and Unchanged are the result, see [model.Plan].
	Changes   []model.Change
	Unchanged int
}

// Manifest plans the change from the manifest original to the manifest target. original is empty for an installation.
// An error means that the cluster did not respond. Objects whose change would fail are part of the result.
func (p *planner) Manifest(original, target string) error {
	end, err := p.Memory.Parse(original, false)
	if err != nil {
		return err
	}
	before, err := p.BuildServed([]byte(original))
	end()
	if err != nil {
		return err
	}
	after, err := p.buildTarget([]byte(target))
	if err != nil {
		return err
	}
	if !p.IsInstall {
		if err := p.list(append(slices.Clone(after), before...)); err != nil {
			return err
		}
	}
	left, err := p.TakeLeftovers()
	if err != nil {
		return err
	}
	planned := make([]*model.Change, len(after))
	var group errgroup.Group
	group.SetLimit(plannedAtOnce)
	for i, info := range after {
		group.Go(func() (err error) {
			planned[i], err = p.object(info, before.Get(info), left)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, change := range planned {
		p.add(change)
	}
	undesired, err := p.Undesired(left, before, after)
	if err != nil {
		return err
	}
	for _, info := range undesired {
		change, err := p.deletion(info)
		if err != nil {
			return err
		}
		if change != nil {
			p.add(change)
		}
	}
	return nil
}

// add adds a change, or counts an object that would not change.
func (p *planner) add(change *model.Change) {
	if change.Kind == "" {
		p.Unchanged++
		return
	}
	p.Changes = append(p.Changes, *change)
}

// buildTarget builds the objects that the cluster serves. Objects of other kinds become changes.
func (p *planner) buildTarget(manifest []byte) (kube.ResourceList, error) {
	objects, err := manifests.Decode(p.Memory, string(manifest))
	if err != nil {
		return nil, err
	}
	mapper, err := p.Clients.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	var served bytes.Buffer
	unserved := map[schema.GroupVersionKind]model.Change{}
	for _, object := range objects {
		if object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
			p.NewNamespaces[object.GetName()] = true
		}
		kind := object.GroupVersionKind()
		if _, known := unserved[kind]; !known {
			_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err == nil {
				data, err := object.MarshalJSON()
				if err != nil {
					return nil, err
				}
				served.WriteString("---\n")
				served.Write(data)
				served.WriteByte('\n')
				continue
			}
			if !meta.IsNoMatchError(err) {
				return nil, err
			}
			unserved[kind] = p.unserved(kind)
		}
		change := unserved[kind]
		change.Ref, change.After = inventory.Of(object), object.Object
		p.add(&change)
	}
	infos, err := p.Client.Client.Build(&served, false)
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		object, err := meta.Accessor(info.Object)
		if err != nil {
			return nil, err
		}
		p.Owner.Mark(object)
	}
	return infos, nil
}

// unserved returns the change of objects of a kind that the cluster does not serve.
func (p *planner) unserved(kind schema.GroupVersionKind) model.Change {
	change := model.Change{Kind: model.ChangeCreate, Reason: model.ReasonKindNotServed}
	if p.NewKinds[kind.GroupKind()] {
		change.Reason = model.ReasonUnchecked
		change.Message = "the CustomResourceDefinition of the kind would be created first"
		return change
	}
	change.Message = p.UnservedError([]schema.GroupVersionKind{kind}).Error()
	return change
}

// list lists the kinds with several objects in a namespace, so that these objects need no further request. Without the
// permission to list objects, the plan reads them one by one.
func (p *planner) list(infos kube.ResourceList) error {
	type place struct {
		kind      schema.GroupVersionKind
		namespace string
	}
	members := map[place]map[string]bool{}
	var lists kube.ResourceList
	for _, info := range infos {
		at := place{info.Mapping.GroupVersionKind, info.Namespace}
		if members[at] == nil {
			members[at] = map[string]bool{}
		}
		members[at][info.Name] = true
		if len(members[at]) == manyPlanned {
			lists = append(lists, info)
			// The empty name stops a second list: another object of the kind finds it in the map.
			members[at][""] = true
		}
	}
	var group errgroup.Group
	group.SetLimit(plannedAtOnce)
	for _, info := range lists {
		group.Go(func() error {
			options := metav1.ListOptions{Limit: objectinfo.ReadsPerPage,
				LabelSelector: kblabels.Set{inventory.ManagedByLabel: inventory.ManagedByHelm}.String()}
			request := objectinfo.ReadRequest(info).VersionedParams(&options, scheme.ParameterCodec)
			path := request.URL().Path
			response, err := request.Do(p.Ctx).Raw()
			if err != nil {
				return p.unlessAnswered(err)
			}
			kind := info.Mapping.GroupVersionKind
			return p.Clients.Prime(path, kind.GroupVersion().String(), kind.Kind, response)
		})
	}
	return group.Wait()
}

// unlessAnswered returns an error if the cluster did not respond or refuses the credentials; nil for other errors.
func (p *planner) unlessAnswered(err error) error {
	switch kind := helmerr.Classify(err); {
	case errors.Is(kind, helmerr.ErrUnreachable), errors.Is(kind, helmerr.ErrUnauthorized),
		errors.Is(kind, helmerr.ErrTimeout), p.Ctx.Err() != nil:
		return err
	default:
		return nil
	}
}

// object plans one object of the manifest. original is the object in the previous manifest; nil if there is none.
func (p *planner) object(info, original *resource.Info, left leftovers.Objects) (*model.Change, error) {
	change := &model.Change{Ref: objectinfo.RefOf(info), Kind: model.ChangeUpdate}
	live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	isMissing := apierrors.IsNotFound(err)
	if err != nil && !isMissing {
		return p.refused(change, info, err)
	}
	desired, err := contentOf(info)
	if err != nil {
		return nil, err
	}
	var updates []apply.Revert
	send := p.Client.Client.Update
	if p.IsInstall && p.TakeOwnership {
		send = p.Client.Client.UpdateThreeWayMerge
	}
	if isMissing {
		change.Kind = model.ChangeCreate
	} else {
		if change.Before, err = runtime.DefaultUnstructuredConverter.ToUnstructured(live); err != nil {
			return nil, err
		}
		if p.checkOwner(change, original == nil, left.HasBaseline && left.Lacks(info)); change.Reason.Fails() {
			change.After = desired
			return change, nil
		}
		if !p.Force {
			if updates, err = p.RevertsOf(left, info, original, live); err != nil {
				return nil, err
			}
		}
		if original == nil {
			// Helm adopts the object, so the manifest is also the baseline of the merge.
			copied := *info
			original = &copied
			original.Object = info.Object.DeepCopyObject()
		}
	}
	if err := p.update(info, change.Before, append(updates, apply.Revert{Baseline: original, Update: send})); err != nil {
		return p.refused(change, info, err)
	}
	if change.After, err = contentOf(info); err != nil {
		return nil, err
	}
	if change.Kind == model.ChangeCreate {
		dropAllocated(desired, change.After)
	}
	if change.Reason == "" && reflect.DeepEqual(withoutBookkeeping(change.Before), withoutBookkeeping(change.After)) {
		change.Kind = ""
	}
	return change, nil
}

// update sends the dry run of an update. before is the object in the cluster. updates revert the changes of failed
// revisions; the last one is the update itself, whose baseline may be nil. The result is that of the first update that
// changes the object.
func (p *planner) update(info *resource.Info, before map[string]any, updates []apply.Revert) error {
	manifest := info.Object
	for i, update := range updates {
		info.Object = manifest.DeepCopyObject()
		var original kube.ResourceList
		if update.Baseline != nil {
			original.Append(update.Baseline)
		}
		_, err := apply.Guarded(func(original, target kube.ResourceList) (*kube.Result, error) {
			return update.Update(original, target, p.Force)
		})(original, kube.ResourceList{info})
		if i < len(updates)-1 && apply.CannotRevert(err) {
			continue // The action does not revert the changes, either.
		}
		if err != nil {
			return err
		}
		after, err := contentOf(info)
		if err != nil || !reflect.DeepEqual(withoutBookkeeping(before), withoutBookkeeping(after)) {
			return err
		}
	}
	return nil
}

// checkOwner checks the owner of an object that exists. isNew means that the previous revision did not have the object:
// Helm then requires that it belongs to the release. isUnchecked means that the previous revision failed, and that an
// earlier one did not have the object, see refuseOthers in package apply. With RefusesUnowned, each object must belong
// to the release.
func (p *planner) checkOwner(change *model.Change, isNew, isUnchecked bool) {
	live := unstructured.Unstructured{Object: change.Before}
	annotations := live.GetAnnotations()
	other := p.Owner.Other(annotations)
	isOwned := p.Owner.Owns(annotations) && live.GetLabels()[inventory.ManagedByLabel] == inventory.ManagedByHelm
	switch {
	case isNew && !p.TakeOwnership && !isOwned, isUnchecked && p.RefusesOthers && other != "",
		p.RefusesUnowned && !p.Owner.Owns(annotations):
		change.Reason, change.Message = model.ReasonOwnedByOther, "the object exists and does not belong to the release"
		if other != "" {
			change.Message = "the object exists and belongs to release " + other
		}
		change.Message += ": set install.takeOwnership to take ownership of the object, or delete the object"
	case other != "":
		change.Reason, change.Message = model.ReasonTakeover, "the object belongs to release "+other+
			" and would belong to this release"
	}
}

// refused completes the change of an object that the cluster refuses. It returns an error if the cluster did not
// respond.
func (p *planner) refused(change *model.Change, info *resource.Info, err error) (*model.Change, error) {
	if err := p.unlessAnswered(err); err != nil {
		return nil, err
	}
	content, convertErr := contentOf(info)
	if convertErr != nil {
		return nil, convertErr
	}
	change.After = content
	var status apierrors.APIStatus
	isNamespace := apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil &&
		status.Status().Details.Kind == "namespaces"
	change.Reason, change.Message = model.ReasonRejected, helmerr.Explain(err).Error()
	switch {
	case isNamespace && p.NewNamespaces[info.Namespace]:
		change.Reason, change.Message = model.ReasonUnchecked, fmt.Sprintf("the namespace %q would be created first",
			info.Namespace)
	case isNamespace:
		change.Message = fmt.Sprintf("the namespace %q does not exist", info.Namespace)
	case noDryRun.MatchString(err.Error()):
		change.Reason, change.Message = model.ReasonUnchecked, err.Error()
	case errors.Is(helmerr.Classify(err), helmerr.ErrForbidden):
		change.Reason = model.ReasonForbidden
	case helmerr.Immutable.MatchString(err.Error()):
		change.Reason = model.ReasonImmutable
		return change, p.recreation(change, info)
	}
	return change, nil
}

// recreation turns a change that the cluster refuses into a re-creation if the option force permits it.
func (p *planner) recreation(change *model.Change, info *resource.Info) error {
	if !p.Force {
		return nil
	}
	reason, err := p.ReasonToKeep(info)
	if err != nil {
		return p.unlessAnswered(err)
	}
	if reason != "" {
		change.Message = "the object cannot be changed in place, and upgrade.force does not delete it: " + reason
		return nil
	}
	change.Kind, change.Reason = model.ChangeRecreate, model.ReasonUnchecked
	change.Message = "a field is immutable: upgrade.force deletes the object and creates it again"
	return nil
}

// deletion plans the deletion of an object that is no longer desired; nil if the object stays or does not exist.
func (p *planner) deletion(info *resource.Info) (*model.Change, error) {
	if objectinfo.IsKeptByManifest(info) {
		return nil, nil
	}
	change := &model.Change{Ref: objectinfo.RefOf(info), Kind: model.ChangeDelete}
	helper := resource.NewHelper(info.Client, info.Mapping)
	live, err := helper.Get(info.Namespace, info.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err == nil {
		if change.Before, err = runtime.DefaultUnstructuredConverter.ToUnstructured(live); err != nil {
			return nil, err
		}
		annotations := (&unstructured.Unstructured{Object: change.Before}).GetAnnotations()
		if p.WhyKept(annotations) != "" || inventory.IsKept(annotations) {
			return nil, nil
		}
		// The deletion has no body, so that the transport can make it a dry run.
		err = info.Client.Delete().NamespaceIfScoped(info.Namespace, helper.NamespaceScoped).Resource(helper.Resource).
			Name(info.Name).Param("propagationPolicy", string(metav1.DeletePropagationBackground)).Do(p.Ctx).Error()
	}
	if err == nil || apierrors.IsNotFound(err) {
		return change, nil
	}
	if change, err = p.refused(change, info, err); err != nil {
		return nil, err
	}
	change.After = nil
	return change, nil
}
