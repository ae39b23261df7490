// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// readsAtOnce is the number of objects that are read at the same time.
const readsAtOnce = 4

// UnownedObject is an existing object of a manifest without Helm's marks for the release.
type UnownedObject struct {
	Ref inventory.Ref
	// Owner is the other release in the marks, as namespace/name; empty if marks are missing.
	Owner string
}

// Unowned returns the objects of a recorded manifest that exist without Helm's label and annotations for the release of
// the client. HelmOp needs the label to list the objects. It needs the annotations so that it does not delete objects
// of other releases. Unowned reads only metadata.
func (k *Client) Unowned(manifest string) ([]UnownedObject, error) {
	end, err := k.Memory.Parse(manifest, false)
	if err != nil {
		return nil, err
	}
	defer end()
	resources, err := k.BuildServed([]byte(manifest))
	if err != nil {
		return nil, err
	}
	return k.unownedIn(resources, true)
}

// refuseUnowned returns an error if objects exist whose annotations do not name the release. A chart may change Helm's
// label of an object that HelmOp created, so the label does not count. With onlyOthers, the annotations must name
// another release.
func (k *Client) refuseUnowned(resources kube.ResourceList, onlyOthers bool) error {
	unowned, err := k.unownedIn(resources, false)
	unowned = slices.DeleteFunc(unowned, func(object UnownedObject) bool { return onlyOthers && object.Owner == "" })
	if err != nil || len(unowned) == 0 {
		return err
	}
	first := unowned[0]
	why := "it does not belong to the release"
	if first.Owner != "" {
		why = "it belongs to release " + first.Owner
	}
	// This is the wording of Helm's installation, because it is the same failure.
	return fmt.Errorf("%s exists and cannot be imported into the current release: %s", first.Ref, why)
}

// unownedIn does the same as Unowned for a list of objects. Without needsLabel, the annotations are enough.
func (k *Client) unownedIn(resources kube.ResourceList, needsLabel bool) ([]UnownedObject, error) {
	var unowned []UnownedObject
	for len(resources) > 0 {
		end := objectinfo.EndOfKind(resources)
		found, err := k.unownedOf(resources[:end], needsLabel)
		if err != nil {
			return nil, err
		}
		unowned = append(unowned, found...)
		resources = resources[end:]
	}
	return unowned, nil
}

// unownedOf does the same as Unowned for objects of one kind.
func (k *Client) unownedOf(infos kube.ResourceList, needsLabel bool) ([]UnownedObject, error) {
	observed := objectinfo.ReadTogether(k.Ctx, infos)
	states := make([]*objectinfo.State, len(infos))
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for i, info := range infos {
		if states[i] = observed.Of(info); states[i] != nil {
			continue
		}
		group.Go(func() (err error) {
			states[i], err = objectinfo.Read(k.Ctx, info)
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("reading %s: %w", objectinfo.RefOf(info), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var unowned []UnownedObject
	for i, info := range infos {
		state := states[i]
		if state == nil || (state.IsLabelled || !needsLabel) && k.Owner.Owns(state.Annotations) {
			continue
		}
		unowned = append(unowned, UnownedObject{Ref: objectinfo.RefOf(info), Owner: k.Owner.Other(state.Annotations)})
	}
	return unowned, nil
}
