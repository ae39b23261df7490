// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// MaxObjects is how many objects of one release are followed. More are left out.
const MaxObjects = 3000

// StuckAfter is how long it takes until an error that may pass by itself is told by a request.
const StuckAfter = 3 * time.Minute

// ErrForbidden is wrapped by Snapshot.Err, and Trouble.Err, if the identity may not watch some of the objects.
var ErrForbidden = errors.New("not permitted to watch")

// Options of a Watcher.
type Options struct {
	// Log gets what is not reported otherwise. Default: nothing is logged.
	Log logr.Logger
	// Debounce is how long changes are collected before the release is asked for. Default: 250 ms.
	Debounce time.Duration
	// Bytes bounds the large events of all streams that are being read. Default: each is bounded for itself only.
	Bytes *bytebudget.Budget
}

// Connection says how to reach a cluster.
type Connection struct {
	// Cluster identifies the cluster. The same name must always mean the same one.
	Cluster string
	// Config is used as it is. It must bound the time of each request that is not a watch.
	Config *rest.Config
	// Mapper resolves kinds. It asks the cluster for those that it does not know and, if it can be reset, after that for all.
	Mapper meta.RESTMapper
	// Identity changes when the address or the credentials do. Releases with the same Cluster and Identity share streams.
	Identity string
	// Owner is for whom large events are read.
	Owner bytebudget.Owner
}

// Plan is what to follow of a release.
type Plan struct {
	// Objects are those of the release, at most MaxObjects. Those that neither Checker nor Drift asks for are listed; without ListEvery
	// they are left out.
	Objects []inventory.Ref
	// Checker judges the health of objects whose kinds have one. Nil: health is not followed.
	Checker *health.Checker
	// Drift follows all objects, for what others change in them.
	Drift bool
	// ListEvery is how often objects are listed that nothing watches, to see whether they still exist. Zero: never.
	ListEvery time.Duration
	// ListSoon lists them within seconds after the plan was first given, and not within ListEvery.
	ListSoon bool
	// Records, if set, follows the records that Helm keeps of the release.
	Records *RecordsRef
}

// RecordsRef names the release whose records Helm keeps.
type RecordsRef struct {
	// Namespace and Name are those of the Helm release.
	Namespace, Name string
}

// Snapshot is what is known of the objects of a release.
type Snapshot struct {
	// Synced is whether everything that the plan asks for has been seen since it was given. What is known of a
	// cluster that has become unreachable stays as it was.
	Synced bool
	// Err is why something that the plan asks for cannot be followed, nil if nothing stands in the way. It wraps
	// ErrForbidden if rights are missing. Streams try again by themselves. State.Trouble is that of one object.
	Err error
	// ErrSince is since when something has stood in the way without a break, the zero time without Err. Unless
	// that is ErrDisconnected, the release is asked for once when it is about StuckAfter ago, and again when it is over;
	// once more if objects whose health is followed get into trouble after that, which then lasts as long.
	ErrSince time.Time
	// Objects is what is known of each object that is followed.
	Objects map[inventory.Ref]State
	// Fingerprint changes when anything but the status of an object changes, or one comes or goes. It is the same for
	// the same objects in every process, as long as this package's version of the algorithm is; at most 64 characters.
	Fingerprint string
	// Records is the same for Helm's records of the release. Empty if they are not followed.
	Records string
}

// Trouble is what stands in the way of following an object.
type Trouble struct {
	// Err is why the object cannot be followed. It wraps ErrForbidden if rights are missing.
	Err error
	// Since is since when something has stood in the way without a break.
	Since time.Time
}

// State is what is known of one object.
type State struct {
	// Known is whether the object has been looked at since the plan was given, or the cluster was connected. What is not
	// known is as it was before, if anything was.
	Known bool
	// Trouble is nil if nothing stands in the way. It is shared between objects and must not be changed.
	Trouble *Trouble
	// Exists is whether the object is in the cluster. One that is listed counts as existing until a list has told otherwise.
	Exists bool
	// Moved is whether clusterctl move took the object to another management cluster, or is about to: that it is gone is meant so.
	Moved bool
	// UID of the object, empty if it does not exist.
	UID types.UID
	// Generation of the object or, where its kind has none, its resource version; 0 if it does not exist. A resource version alone is
	// no change: nobody is told of it.
	Generation int64
	// Fingerprint changes when anything but the status of the object changes.
	Fingerprint uint64
	// Verdict and Message are what the plan's checker says. Kinds without a health of their own are current if
	// they exist.
	Verdict health.Verdict
	Message string
	// OptOut is whether an annotation or a label on the object leaves it out of drift detection.
	OptOut bool
	// Manager is who last changed something in the object besides its status, by the name of the field manager, other
	// than HelmOp. Empty if nobody did.
	Manager string
}
