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

// StuckAfter is how long a possibly transient error lasts before its releases are requested.
const StuckAfter = 3 * time.Minute

// ErrForbidden is wrapped by Snapshot.Err and Trouble.Err if the identity lacks the permission to watch some of the
// objects.
var ErrForbidden = errors.New("not permitted to watch")

// Options of a Watcher.
type Options struct {
	// Log receives what is not reported otherwise. Default: nothing is logged.
	Log logr.Logger
	// Debounce is how long changes are collected before the release is asked for. Default: 250 ms.
	Debounce time.Duration
	// Bytes bounds the large events of all streams that are being read. Default: each is bounded for itself only.
	Bytes *bytebudget.Budget
}

// Connection is how to reach a cluster.
type Connection struct {
	// Cluster identifies the cluster. The same name must always mean the same one.
	Cluster string
	// Config is used unchanged. It must bound the time of each request that is not a watch.
	Config *rest.Config
	// Mapper maps kinds to resources. For unknown kinds it must run discovery. If it can be reset, it is reset before a
	// second attempt.
	Mapper meta.RESTMapper
	// Identity changes when the address or the credentials do. Releases with the same Cluster and Identity share streams.
	Identity string
	// Owner is for whom large events are read.
	Owner bytebudget.Owner
}

// Plan is what to follow of a release.
type Plan struct {
	// Objects are the objects of the release, at most MaxObjects. Objects that neither Checker nor Drift follows are
	// listed; without ListEvery they are not followed.
	Objects []inventory.Ref
	// Checker judges the health of objects whose kinds have one. Nil: health is not followed.
	Checker *health.Checker
	// Drift follows the changes of all objects by others.
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

// Snapshot is the state of the objects of a release.
type Snapshot struct {
	// Synced means that everything in the plan has been seen since the plan was given. The known state of a cluster that
	// became unreachable stays.
	Synced bool
	// Err is why something in the plan cannot be followed, nil if all can. It wraps ErrForbidden if permissions are
	// missing. Streams retry automatically. State.Trouble is the error of one object.
	Err error
	// ErrSince is when the uninterrupted error began, the zero time without Err. Except for ErrDisconnected, the release
	// is requested when the error is about StuckAfter old, and again when it ends. It is requested once more if objects
	// whose health is followed are affected later, for as long.
	ErrSince time.Time
	// Objects is the state of each followed object.
	Objects map[inventory.Ref]State
	// Fingerprint changes when anything but the status of an object changes, or one comes or goes. It is the same for
	// the same objects in every process, as long as this package's version of the algorithm is; at most 64 characters.
	Fingerprint string
	// Records is the same for Helm's records of the release. Empty if they are not followed.
	Records string
}

// Trouble is an error that prevents following an object.
type Trouble struct {
	// Err is why the object cannot be followed. It wraps ErrForbidden if rights are missing.
	Err error
	// Since is since when something has stood in the way without a break.
	Since time.Time
}

// State is the state of one object.
type State struct {
	// Known means that the object was seen since the plan was given, or the cluster was connected. Otherwise the rest of
	// the State is the previous one, if there was any.
	Known bool
	// Trouble is nil if there is no error. It is shared between objects and must not be changed.
	Trouble *Trouble
	// Exists means that the object is in the cluster. A listed object counts as existing until a list shows otherwise.
	Exists bool
	// Moved means that clusterctl move has moved, or is moving, the object to another management cluster: its deletion is
	// intended.
	Moved bool
	// UID of the object, empty if it does not exist.
	UID types.UID
	// Generation is the generation of the object or, if its kind has none, its resource version; 0 if it does not exist. A
	// change of the resource version alone causes no request.
	Generation int64
	// Fingerprint changes when anything but the status of the object changes.
	Fingerprint uint64
	// Verdict and Message are the result of the plan's checker. Kinds without a health of their own are current if they
	// exist.
	Verdict health.Verdict
	Message string
	// OptOut is whether an annotation or a label on the object leaves it out of drift detection.
	OptOut bool
	// Manager is the field manager, other than HelmOp, that last changed something besides the status. Empty if there is
	// none.
	Manager string
}
