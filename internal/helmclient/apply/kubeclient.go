// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/knownobjects"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/leftovers"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/waits"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/notserved"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// Client is Helm's client of a cluster for one action.
type Client struct {
	*kube.Client
	// Ctx bounds all requests of the action.
	Ctx     context.Context
	Clients *connections.Getter
	// Seen holds the manifests of records that were read.
	Seen *manifests.Recorded
	// Lenient skips objects and hooks of kinds that the cluster no longer serves, for an uninstallation.
	Lenient bool
	// Owner is the release of the action.
	Owner objectinfo.ReleaseName
	// Leftovers holds further revisions that may have objects in the cluster; nil if there are none.
	Leftovers *leftovers.Leftovers
	// KeepsCRD reports whether the chart may have a CustomResourceDefinition in its folders crds. An upgrade does not
	// delete it. The result is always true for a rollback. KeepsCRD is nil for other actions.
	KeepsCRD func(name string) bool
	// Progress receives a description of the current step.
	Progress func(string)
	// Stop ends waits when it is done; nil if nothing ends them.
	Stop context.Context
	// OnlyOwned means that objects without the annotations of the release are never deleted.
	OnlyOwned bool
	// RefusesUnowned means that an update fails if one of its objects exists without the annotations of the release.
	RefusesUnowned bool
	// Restores means that the action is a rollback. Helm then does not search for existing objects of the manifest.
	Restores bool
	// RefusesOthers means that an upgrade or a rollback fails if it would take over an object of another release.
	RefusesOthers bool
	// Known has versions of objects that belonged to the release; nil if none is known.
	Known knownobjects.Versions
	// Memory is the memory of the action; nil if there is no bound.
	Memory *actionmemory.Lease
	// Found is called if an installation finds objects of the release that an uninstallation would delete; nil for other
	// actions.
	Found func()
	// Remaining is called if objects of an uninstallation may still exist at the end of its wait; nil for other actions.
	Remaining func()
	// Recorded returns an error if the record of the action no longer exists; nil if there is no such check.
	Recorded func() error

	// assumed holds the objects that an installation assumes to be missing; nil if there is no such assumption.
	assumed *assumedObjects

	// isMade reports whether an object is the namespace of the release, which this action has created before the objects
	// of the manifest; nil if it has not.
	isMade func(*resource.Info) bool

	// hooks holds what this action knows about the objects of its hooks, by hookRef.
	hooks map[inventory.Ref]hookState

	// planned are the objects of the manifest, if the action is an installation that has not begun to create or apply
	// them.
	planned kube.ResourceList

	mu        sync.Mutex
	deletions []error
	// applied holds the objects of the manifest that were applied, with their generations after that.
	applied map[inventory.Ref]model.Generation
	// versions holds the versions of these objects.
	versions knownobjects.Versions
}

// NewClient returns a client of the objects in a namespace. ctx bounds all its requests; log receives Helm's log lines.
func NewClient(ctx context.Context, clients *connections.Getter, namespace string, log action.DebugLog) *Client {
	return &Client{
		Client:   &kube.Client{Factory: clients, Log: log, Namespace: namespace},
		Ctx:      ctx,
		Clients:  clients,
		Seen:     &manifests.Recorded{},
		Progress: func(string) {},
		applied:  map[inventory.Ref]model.Generation{},
		versions: knownobjects.Versions{},
		hooks:    map[inventory.Ref]hookState{},
	}
}

// Plans implements namespacing.Manifest.
func (k *Client) Plans(is func(*resource.Info) bool) bool { return slices.ContainsFunc(k.planned, is) }

// Mark implements namespacing.Manifest.
func (k *Client) Mark(object metav1.Object) { k.Owner.Mark(object) }

// NoteMade implements namespacing.Manifest.
func (k *Client) NoteMade(is func(*resource.Info) bool) { k.isMade = is }

// IsReachable implements kube.Interface. It sends no request, because the observation before each action has checked
// the connection.
func (k *Client) IsReachable() error { return nil }

// Build implements kube.Interface. In a manifest that will be applied, a kind that the cluster does not serve is an
// error. In a recorded manifest, objects of such kinds are skipped: they cannot exist, so an upgrade or uninstallation
// must not fail because of them. Helm validates the hooks of an uninstallation, but HelmOp skips them, too: such a hook
// could never run, so the release could never be uninstalled.
func (k *Client) Build(reader io.Reader, validate bool) (kube.ResourceList, error) {
	manifest, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	// An uninstallation reserves memory for the newest manifest and its hooks as for a rendered chart, because Helm builds
	// this manifest in another form than the recorded one. So a recorded form belongs to another revision.
	end, err := k.Memory.Parse(string(manifest), !k.Seen.Has(string(manifest)))
	if err != nil {
		if k.Lenient {
			k.noteDeletions(err)
		}
		return nil, err
	}
	defer end()
	resources, err := k.Client.Build(bytes.NewReader(manifest), validate)
	if unknown := unknownKinds(err); len(unknown) > 0 {
		if !k.Lenient && (validate || !k.Seen.Has(string(manifest))) {
			return nil, k.UnservedError(unknown)
		}
		resources, err = k.BuildServed(manifest)
	}
	if err == nil && k.Lenient && !validate && len(resources) == 0 &&
		!bytes.Contains(manifest, []byte(release.HookAnnotation)) {
		// If this list is empty, Helm deletes no objects and does not call DeleteWithPropagationPolicy.
		resources, err = k.leftBehindBy(nil)
	}
	if err == nil {
		k.noteAssumed(resources)
		if _, isHook := objectinfo.HookOf(resources); k.Found != nil && !isHook {
			k.planned = resources
		}
	}
	if err != nil && k.Lenient {
		// Helm's uninstallation reports a failure without its cause.
		k.noteDeletions(err)
	}
	return resources, err
}

// begin is called before each change of an object. The objects of the manifests are built by then, except in an
// uninstallation.
func (k *Client) begin() error {
	err := k.Memory.Commit()
	if err == nil && !k.Lenient {
		k.Memory.Settle()
	}
	return err
}

// Create implements kube.Interface.
func (k *Client) Create(resources kube.ResourceList) (*kube.Result, error) {
	hook, isHook := objectinfo.HookOf(resources)
	if !isHook {
		k.planned = nil
	}
	if err := k.begin(); err != nil {
		return &kube.Result{}, err
	}
	if isHook {
		k.Progress("creating " + hook)
	} else {
		k.Progress("creating " + plural.Count(len(resources), "object", "objects"))
	}
	manifests := k.manifestsOf(resources)
	result, err := k.create(resources)
	if isHook {
		k.noteHooks(resources, err == nil)
	}
	k.noteApplied(result, manifests, err == nil)
	return result, helmerr.Explain(err)
}

// create creates the objects that were not created before the others. It updates the namespace of the release if this
// action has created it. An empty list is an error, as in Helm, unless it may be a hook of a kind that the cluster no
// longer serves.
func (k *Client) create(resources kube.ResourceList) (*kube.Result, error) {
	rest, err := k.withoutAssumed(resources)
	if err != nil {
		return nil, err
	}
	if k.isMade != nil {
		made := rest.Filter(k.isMade)
		if _, err := Guarded(k.updateKnown)(made, made); err != nil {
			return nil, err
		}
		rest = rest.Difference(made)
	}
	if len(rest) > 0 || len(resources) == 0 && !k.Lenient {
		_, err := k.Client.Create(rest)
		if k.Lenient && notserved.Is(err) {
			err = k.createServed(rest)
		}
		if err != nil {
			return nil, err
		}
	}
	return &kube.Result{Created: resources}, nil
}

// createServed creates hooks after the path of their kind was not found: discovery was outdated. It skips hooks of
// kinds that the cluster no longer serves.
func (k *Client) createServed(hooks kube.ResourceList) error {
	k.Clients.Conn.Kinds.Invalidate()
	for _, hook := range hooks {
		served, err := k.rebuild(hook)
		if err == nil && len(served) > 0 {
			_, err = k.Client.Create(served)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Update implements kube.Interface.
func (k *Client) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	if force {
		return k.apply(original, target, true, k.forceUpdate)
	}
	return k.apply(original, target, false, k.updateKnown)
}

// UpdateThreeWayMerge implements kube.InterfaceThreeWayMerge.
func (k *Client) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	return k.apply(original, target, force, func(original, target kube.ResourceList) (*kube.Result, error) {
		return k.Client.UpdateThreeWayMerge(original, target, force)
	})
}

// apply updates objects and then deletes the objects that are no longer desired. Helm's client receives only the
// objects that stay. Otherwise, it would also delete objects of other owners, and would only log failed deletions. No
// later revision would then delete these objects. force means that update replaces whole objects.
func (k *Client) apply(original, target kube.ResourceList, force bool, update UpdateFunc) (*kube.Result, error) {
	k.planned = nil
	if k.Found != nil && slices.ContainsFunc(original,
		func(info *resource.Info) bool { return !objectinfo.IsKeptByManifest(info) }) {
		k.Found()
	}
	if err := k.begin(); err != nil {
		return &kube.Result{}, err
	}
	if k.RefusesUnowned {
		if err := k.refuseUnowned(target, false); err != nil {
			return &kube.Result{}, err
		}
	}
	rest, err := k.withoutAssumed(target)
	if err != nil {
		return &kube.Result{}, err
	}
	left, err := k.TakeLeftovers()
	if err != nil {
		return &kube.Result{}, helmerr.Explain(err)
	}
	if err := k.refuseOthers(left, original, rest); err != nil {
		return &kube.Result{}, err
	}
	if k.Restores {
		original = rollbackBaselines(original, rest)
	}
	manifests := k.manifestsOf(target)
	if !force {
		err = k.revertFields(left, original, rest)
	}
	result, updateErr := k.updateAll(original.Intersect(rest), rest, update)
	if updateErr != nil {
		err = updateErr
	} else {
		result.Created = append(result.Created, target.Difference(rest)...)
	}
	k.noteApplied(result, manifests, err == nil)
	if err != nil {
		return result, helmerr.Explain(err)
	}
	undesired, err := k.Undesired(left, original, target)
	if err != nil {
		return result, helmerr.Explain(err)
	}
	deleted, errs := k.DeleteAll(undesired, Deletion{Policy: metav1.DeletePropagationBackground, obeysKeepPolicy: true})
	result.Deleted = append(result.Deleted, deleted.Deleted...)
	if err := errors.Join(errs...); err != nil {
		return result, helmerr.Explain(fmt.Errorf("deleting objects that are no longer desired: %w", err))
	}
	return result, nil
}

// Wait implements kube.Interface.
func (k *Client) Wait(resources kube.ResourceList, timeout time.Duration) error {
	return k.waiter().UntilStop(resources, timeout, k.Client.Wait)
}

// WatchUntilReady implements kube.Interface.
func (k *Client) WatchUntilReady(resources kube.ResourceList, timeout time.Duration) error {
	if hook, ok := objectinfo.HookOf(resources); ok {
		k.Progress("waiting for " + hook)
	}
	return k.waiter().ForHooks(resources, timeout)
}

// WaitForDelete implements kube.InterfaceExt. It does not wait for objects that are not being deleted, because HelmOp
// keeps these objects. After any error, an uninstallation keeps the records of the release.
func (k *Client) WaitForDelete(resources kube.ResourceList, timeout time.Duration) error {
	_, isHook := objectinfo.HookOf(resources)
	if isHook {
		resources = resources.Filter(func(info *resource.Info) bool { return !k.hooks[hookRef(info)].isGone })
	}
	err := k.waiter().ForDeletion(resources, timeout)
	if err != nil && !isHook && k.Remaining != nil {
		k.Remaining()
	}
	return err
}

// waiter returns the waits of the action.
func (k *Client) waiter() waits.Waiter {
	return waits.Waiter{Ctx: k.Ctx, Stop: k.Stop, Recorded: k.Recorded, Log: k.Log}
}

// Delete implements kube.Interface. Helm calls it for hooks, and to clean up after a failed action. It deletes no
// object of another release.
func (k *Client) Delete(resources kube.ResourceList) (*kube.Result, []error) {
	if err := k.begin(); err != nil {
		return &kube.Result{}, []error{err}
	}
	if _, ok := objectinfo.HookOf(resources); ok {
		return k.deleteHooks(resources)
	}
	return k.DeleteAll(resources, Deletion{Policy: metav1.DeletePropagationBackground})
}

// DeleteWithPropagationPolicy implements kube.InterfaceDeletionPropagation. An uninstallation calls it for the objects
// of the newest revision.
func (k *Client) DeleteWithPropagationPolicy(resources kube.ResourceList,
	policy metav1.DeletionPropagation,
) (*kube.Result, []error) {
	if err := k.begin(); err != nil {
		return &kube.Result{}, []error{err}
	}
	k.Progress("deleting " + plural.Count(len(resources), "object", "objects"))
	behind, err := k.leftBehindBy(resources)
	if err != nil {
		k.noteDeletions(err)
		return &kube.Result{}, []error{err}
	}
	result, errs := k.DeleteAll(append(slices.Clone(resources), behind...), Deletion{Policy: policy})
	k.noteDeletions(errs...)
	return result, errs
}

// noteDeletions stores errors for DeletionErrors.
func (k *Client) noteDeletions(errs ...error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deletions = append(k.deletions, errs...)
}

// DeletionErrors returns the errors of all deletions so far; nil if there was no error.
func (k *Client) DeletionErrors() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.deletions...)
}

// noteApplied stores which objects of the manifest were applied, and their generations in the responses of the API
// server. It also stores their versions, but only if all succeeded: after a failure, the result may contain objects as
// they are in the manifest, and the author of the chart may have written a resource version there. manifests has each
// object as it was before the requests.
func (k *Client) noteApplied(result *kube.Result, manifests map[*resource.Info]runtime.Object, allSucceeded bool) {
	if result == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, list := range []kube.ResourceList{result.Created, result.Updated} {
		for _, info := range list {
			object, err := meta.Accessor(info.Object)
			if err != nil || info.Mapping == nil || objectinfo.IsHook(object) {
				continue
			}
			number, isVersion := inventory.NumberOf(object)
			ref := objectinfo.RefOf(info)
			k.applied[ref] = model.Generation{UID: object.GetUID(), Number: number, IsVersion: isVersion}
			if allSucceeded {
				k.versions.AddApplied(k.Owner, ref, object, manifests[info])
			}
		}
	}
}

// Objects returns the objects of the manifest that were created, changed or found up to date, and their generations.
func (k *Client) Objects() (refs []inventory.Ref, generations map[inventory.Ref]model.Generation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	refs = slices.Collect(maps.Keys(k.applied))
	inventory.Sort(refs)
	return refs, maps.Clone(k.applied)
}

// AppliedVersions returns the versions of the objects that this action applied.
func (k *Client) AppliedVersions() knownobjects.Versions {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.versions)
}
