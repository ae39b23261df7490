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

// MaxObjects is the maximum number of followed objects of one release. Further objects are left out.
const MaxObjects = 3000

// StuckAfter is how long a possibly transient error lasts before its releases are reconciled.
const StuckAfter = 3 * time.Minute

// ErrForbidden is wrapped by Snapshot.Err and WatchError.Err if the identity lacks the permission to watch some of the
// objects.
var ErrForbidden = errors.New("not permitted to watch")

// Options configure a Watcher.
type Options struct {
	// Log receives events that are not reported otherwise. Default: no logging.
	Log logr.Logger
	// Debounce is how long changes are collected before the release is reconciled. Default: 250 ms.
	Debounce time.Duration
	// Bytes bounds the memory for the large events of all streams that are being read. Default: only the size of each
	// event is bounded.
	Bytes *bytebudget.Budget
}

// Connection is the connection to a cluster.
type Connection struct {
	// Cluster identifies the cluster. A name must always mean the same cluster.
	Cluster string
	// Config is used unchanged. It must bound the time of each request that is not a watch.
	Config *rest.Config
	// Mapper maps kinds to resources. For unknown kinds it must run discovery. If it can be reset, it is reset before a
	// second attempt.
	Mapper meta.RESTMapper
	// Identity identifies the address and the credentials. Releases with the same Cluster and Identity share streams.
	Identity string
	// Owner is the owner of the memory for large events.
	Owner bytebudget.Owner
}

// Plan lists what to follow for a release.
type Plan struct {
	// Objects are the objects of the release, at most MaxObjects. Objects for which neither health nor drift detection is
	// enabled are listed. Without ListEvery, they are not followed.
	Objects []inventory.Ref
	// Checker determines the health of objects whose kinds have a health rule. If it is nil, health is not followed.
	Checker *health.Checker
	// Drift is true if changes of all objects by other clients must be followed.
	Drift bool
	// ListEvery is how often objects without a watch are listed, to detect deleted ones. 0 means never.
	ListEvery time.Duration
	// ListSoon lists these objects within seconds after the first Follow with the plan, instead of after ListEvery.
	ListSoon bool
	// Records selects the Helm records of the release, if they are followed.
	Records *RecordsRef
}

// RecordsRef names the release whose records Helm keeps.
type RecordsRef struct {
	// Namespace and Name identify the Helm release.
	Namespace, Name string
}

// Snapshot is the state of the objects of a release.
type Snapshot struct {
	// Synced is true if everything in the plan was observed since the call of Follow with the plan, or since the call of
	// Expect before it. If the cluster became unreachable, the known state stays.
	Synced bool
	// Err is the reason why something in the plan cannot be followed; nil if everything can be followed. It wraps
	// ErrForbidden if permissions are missing. Streams retry automatically. State.WatchError is the error of one object.
	// Objects without a watch that may not be read are not an error, see State.Denied.
	Err error
	// ErrSince is when the current, uninterrupted Err began; zero without Err. Except for ErrDisconnected, the release
	// is reconciled when the error is about StuckAfter old, and again when the error ends. The release is reconciled
	// once more if the error later affects, for the same time, objects whose health is followed.
	ErrSince time.Time
	// Objects is the state of each followed object.
	Objects map[inventory.Ref]State
	// Fingerprint changes when an object is created, deleted or changed, except for its status. For the same objects,
	// every process with the same version of the algorithm computes the same value. It has at most 64 characters.
	Fingerprint string
	// Records is the fingerprint of Helm's records of the release; empty if they are not followed.
	Records string
}

// WatchError is an error that prevents following an object.
type WatchError struct {
	// Err is why the object cannot be followed. It wraps ErrForbidden if permissions are missing.
	Err error
	// Since is when the current, uninterrupted error began.
	Since time.Time
}

// MoveMark says what the metadata of an object contains about clusterctl move. It proves no move: users can write it.
type MoveMark uint8

const (
	// Unmarked means that the object does not have the annotation that clusterctl move sets before it deletes an
	// object.
	Unmarked MoveMark = iota
	// Marked means that the object has the annotation.
	Marked
	// MarkedMovable means that the object has the annotation, and a label or an owner for which clusterctl move moves
	// objects. See [inventory.MovesWithClusters].
	MarkedMovable
)

// State is the state of one object.
type State struct {
	// Known is true if the object was observed since the plan was set, since the call of Expect before it, or since the
	// cluster was connected. Otherwise the rest of the State is the previous state, if there was one.
	Known bool
	// WatchError is nil if there is no error. For an object without a watch, it is the error of the list, except a missing
	// permission, see Denied. It is shared between objects and must not be changed.
	WatchError *WatchError
	// Denied is true if the identity may neither list nor get the object, which has no watch. The rest of the State
	// is then the last known state.
	Denied bool
	// Exists is true if the object is in the cluster. A listed object counts as existing until a list shows otherwise.
	Exists bool
	// MoveMark is the mark of clusterctl move. If the object does not exist, MoveMark is its last mark.
	MoveMark MoveMark
	// UID of the object, empty if it does not exist.
	UID types.UID
	// Generation is the generation of the object; 0 if it does not exist. If its kind has no generation, it is the
	// resource version. A change of the resource version alone does not request a reconciliation.
	Generation int64
	// ResourceVersion is the resource version of the object. It is 0 if the object does not exist or is listed, or if the
	// resource version is not a number. A change of the resource version alone does not request a reconciliation.
	ResourceVersion int64
	// DeletedWith is the Helm release with which the object is deleted, see [inventory.DeletedWith].
	DeletedWith string
	// Fingerprint changes when anything but the status of the object changes.
	Fingerprint uint64
	// Health and Message are the result of the plan's checker. Objects of kinds without a health rule are current if they
	// exist.
	Health  health.Status
	Message string
	// OptOut is true if an annotation or a label excludes the object from drift detection.
	OptOut bool
	// Manager is the field manager that last changed something besides the status, other than HelmOp; empty if there is
	// none.
	Manager string
}
