// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

// releasePage is the data of the view of a release.
type releasePage struct {
	Release *addonsv1.HelmOpRelease
	Row     fleetview.Row
	Next    []fleetview.Step
	Objects []object
	// SoakEnds is when the soak time of the release ends; zero if the release is not in its soak time.
	SoakEnds time.Time
	happenings
}

// object is an object of a release in the Cluster.
type object struct {
	Kind, Name string
	// Mark says what is wrong with the object; empty if the status of the release does not name the object.
	Mark string
}

// releaseView shows the release of a HelmOp in a Cluster.
func (s *server) releaseView(r *http.Request, f *fleet) (content, error) {
	key := keyOf(r)
	release := f.Releases[key]
	if release == nil {
		return notFound(fmt.Sprintf("HelmOpRelease %q in namespace %q", key.Name, key.Namespace)), nil
	}
	p := &releasePage{Release: release, Row: f.RowOf(release), Objects: objectsOf(release),
		happenings: s.eventsOf(r, key, "HelmOpRelease")}
	helmOp := f.helmOp(client.ObjectKey{Namespace: p.Row.Namespace, Name: p.Row.HelmOp})
	if helmOp != nil {
		p.Next = fleetview.NextForRelease(helmOp, release, &p.Row, s.Program)
	}
	return content{Title: p.Row.HelmOp + " in " + p.Row.Cluster, Template: "release", Data: p}, nil
}

// objectsOf returns the objects of a release.
func objectsOf(release *addonsv1.HelmOpRelease) []object {
	if release.Status.Inventory == nil {
		return nil
	}
	var objects []object
	for _, kind := range release.Status.Inventory.Kinds {
		for _, name := range kind.Objects {
			objects = append(objects, object{Kind: kind.Kind, Name: name,
				Mark: fleetview.MarkOf(release, kind.Kind, name)})
		}
	}
	return objects
}
