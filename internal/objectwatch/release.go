// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"hash/maphash"
	"slices"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// maxOwnStreams is the maximum number of objects of one release that have their own stream because they lost Helm's
// label.
const maxOwnStreams = 16

// release is the state of a followed release. The Watcher's lock guards it.
type release struct {
	key     types.NamespacedName
	digest  uint64
	checker *health.Checker
	drift   bool
	// otherNamespaces is the field of this name in the last Expectation.
	otherNamespaces bool
	// link is nil while its cluster is disconnected.
	link *link
	// unlinked is the reason why link is nil.
	unlinked failure
	// stuckSince and healthStuckSince are the start times of the lasting errors that caused the last request of the
	// release. stuckSince is for all followed objects, healthStuckSince for objects whose health is followed.
	stuckSince, healthStuckSince time.Time
	// objects are sorted by their names.
	objects []object
	// unknown is the number of objects and sets of records that were not observed since the plan was set.
	unknown int
	// unknownHealth is the number of unknown objects whose health is followed.
	unknownHealth int
	ownStreams    int
	// listEvery and listSoon are the settings of the plan for listed objects.
	listEvery time.Duration
	listSoon  bool
	// listRequested is true while a caller of Watcher.List waits until all listed objects are known.
	listRequested bool

	recordsRef    *RecordsRef
	records       records
	recordsKnown  bool
	recordsStream *stream
}

// object is the state of one object. Its texts are shared between releases and clusters.
type object struct {
	ref         sharedRef
	fingerprint uint64
	uid         types.UID
	generation  int64
	// version is the resource version. deletedWith is the Helm release with which the object is deleted.
	version     int64
	deletedWith unique.Handle[string]
	message     unique.Handle[string]
	manager     unique.Handle[string]
	status      unique.Handle[health.Status]
	// stream is the stream of the object, nil until its kind is discovered.
	stream                *stream
	known, exists, optOut bool
	// denied is true if the identity may neither list nor get the object, which is listed.
	denied   bool
	moveMark MoveMark
	// healthChecked is true if the health of the object is followed. listed is true if only its existence is followed.
	healthChecked, listed bool
}

// sharedRef is a reference whose texts are shared. The namespace is separate: it often contains the name of the
// Cluster, while the rest is the same in all Clusters.
type sharedRef struct {
	object    unique.Handle[inventory.Ref]
	namespace unique.Handle[string]
}

func shareRef(ref inventory.Ref) sharedRef {
	namespace := unique.Make(ref.Namespace)
	ref.Namespace = ""
	return sharedRef{object: unique.Make(ref), namespace: namespace}
}

// Value returns the reference.
func (s sharedRef) Value() inventory.Ref {
	ref := s.object.Value()
	ref.Namespace = s.namespace.Value()
	return ref
}

// finding is an observed state of an object.
type finding struct {
	exists, optOut bool
	// denied means that the object may not be read.
	denied      bool
	moveMark    MoveMark
	fingerprint uint64
	uid         types.UID
	generation  int64
	isVersion   bool
	version     int64
	deletedWith string
	manager     string
	status      health.Status
	message     string
}

var absent = finding{status: health.NotFound, message: "does not exist"}

// newRelease returns a release with an unknown state. It sends no request.
func newRelease(key types.NamespacedName, digest uint64, plan Plan) *release {
	r := &release{key: key, digest: digest, checker: plan.Checker, drift: plan.Drift, listEvery: plan.ListEvery,
		listSoon: plan.ListSoon}
	if plan.Records != nil {
		records := *plan.Records
		r.recordsRef, r.unknown = &records, 1
	}
	refs := make([]inventory.Ref, 0, len(plan.Objects))
	for _, ref := range plan.Objects {
		if plan.Drift || plan.ListEvery > 0 || r.checksHealth(ref) {
			refs = append(refs, ref)
		}
	}
	inventory.Sort(refs)
	refs = slices.Compact(refs)
	refs = refs[:min(len(refs), MaxObjects)]
	r.objects = make([]object, len(refs))
	r.unknown += len(refs)
	for i, ref := range refs {
		healthChecked := r.checksHealth(ref)
		o := object{healthChecked: healthChecked, listed: !healthChecked && !plan.Drift, ref: shareRef(ref),
			status: unique.Make(health.Unknown), message: unique.Make(""), manager: unique.Make(""),
			deletedWith: unique.Make("")}
		switch {
		case healthChecked:
			r.unknownHealth++
		case o.listed:
			// The object counts as existing, and no caller waits for the next list.
			o.exists = true
			r.unknown--
		}
		r.objects[i] = o
	}
	return r
}

// checksHealth reports whether HelmOp follows the health of the object, and not only its existence.
func (r *release) checksHealth(ref inventory.Ref) bool {
	gvk := ref.GroupVersionKind()
	return r.checker != nil && (inventory.HasHealth(gvk) || r.checker.Has(gvk))
}

// inherit copies the state of the release under its previous plan. Known states stay known if they come from the same
// link and the same checker. Pending reads of the same link stay pending: the stream of a known object does not
// restart, so it does not show again that the object has vanished.
func (r *release) inherit(old *release) {
	r.listRequested, r.listSoon = old.listRequested, r.listSoon && old.link != r.link
	r.otherNamespaces = old.otherNamespaces
	certain := old.link != nil && old.link == r.link && old.checker.Equal(r.checker) && old.drift == r.drift
	known := make(map[sharedRef]int, len(old.objects))
	for i := range old.objects {
		known[old.objects[i].ref] = i
	}
	for i := range r.objects {
		index, ok := known[r.objects[i].ref]
		if !ok {
			continue
		}
		before := &old.objects[index]
		if before.listed != r.objects[i].listed {
			continue
		}
		after := *before
		after.healthChecked, after.known = r.objects[i].healthChecked, false
		if !certain {
			after.stream, after.denied = nil, false
		}
		r.objects[i] = after
		r.setKnown(i, certain && before.known)
		if old.link != nil && old.link == r.link {
			r.link.pendingReads.inherit(target{release: r, index: i}, target{release: old, index: index})
		}
	}
	if r.recordsRef != nil && old.recordsRef != nil && *r.recordsRef == *old.recordsRef {
		r.records = old.records
		if r.recordsKnown = old.recordsKnown && old.link == r.link; r.recordsKnown {
			r.unknown--
		}
	}
}

// needsList reports whether the first list of the release must not wait. A request for a list may have come before the
// present connection or plan, or before the discovery of a kind.
func (r *release) needsList() bool { return r.listSoon || r.listRequested }

// setKnown records whether an object is known.
func (r *release) setKnown(i int, known bool) {
	o, change := &r.objects[i], 1
	if o.known == known {
		return
	}
	if known {
		change = -1
	}
	o.known = known
	if o.listed {
		return
	}
	r.unknown += change
	if o.healthChecked {
		r.unknownHealth += change
	}
}

// apply applies a finding about an object, and reports whether the release must be reconciled. The first reconciliation
// is due when all objects are known. After a change of health, a reconciliation is due when all objects with followed
// health are known: the other objects may never become known.
func (r *release) apply(i int, f finding) bool {
	o := &r.objects[i]
	if o.listed {
		return r.applyListed(i, f)
	}
	after := *o
	after.exists, after.optOut, after.fingerprint = f.exists, f.optOut, f.fingerprint
	after.moveMark = o.markAfter(f)
	after.uid, after.generation = f.uid, f.generation
	after.version, after.deletedWith = f.version, unique.Make(f.deletedWith)
	after.manager, after.status, after.message = unique.Make(f.manager), unique.Make(f.status), unique.Make(f.message)
	before := *o
	// The fingerprint includes annotations.
	before.version, before.deletedWith = after.version, after.deletedWith
	if f.isVersion {
		// A change of these fields alone is reported in another way, or does not matter.
		before.generation = after.generation
	}
	changed := after != before || !o.known
	*o = after
	r.setKnown(i, true)
	return changed && (r.unknown == 0 || o.healthChecked && r.unknownHealth == 0)
}

// markAfter returns the mark of an object after a finding. A deleted object keeps the mark that was last observed.
func (o *object) markAfter(f finding) MoveMark {
	if f.exists {
		return f.moveMark
	}
	return o.moveMark
}

// applyRecords applies the records of the release, and reports whether the release must be reconciled.
func (r *release) applyRecords(changed bool) bool {
	if !r.recordsKnown {
		r.recordsKnown = true
		r.unknown--
		changed = true
	}
	return changed && r.unknown == 0
}

// markUnknown marks everything as unknown, because streams have ended.
func (r *release) markUnknown() {
	for i := range r.objects {
		r.setKnown(i, false)
		r.objects[i].stream = nil
	}
	if r.recordsKnown {
		r.unknown++
	}
	r.recordsKnown, r.recordsStream, r.ownStreams = false, nil, 0
}

// failureOf returns the error that prevents following an object, or none.
func (r *release) failureOf(i int) failure {
	switch o := &r.objects[i]; {
	case r.link == nil:
		return r.unlinked
	case o.stream != nil:
		return o.stream.failure
	default:
		return r.link.pendingReads.kinds[o.ref.Value().GroupVersionKind()].failure
	}
}

// failure returns the errors that have lasted longest: among all followed objects, and among the objects whose health
// is followed.
func (r *release) failure() (worst, health failure) {
	if r.link == nil {
		worst = r.unlinked
	} else if r.recordsStream != nil {
		worst = r.recordsStream.failure
	}
	for i := range r.objects {
		t := r.failureOf(i)
		worst = worst.older(t)
		if r.objects[i].healthChecked {
			health = health.older(t)
		}
	}
	return worst, health
}

// watchErrors returns the error of each object; nil if there is none.
func (r *release) watchErrors() []*WatchError {
	watchErrors := make([]*WatchError, len(r.objects))
	var last *WatchError
	for i := range r.objects {
		t := r.failureOf(i)
		if t.err == nil {
			continue
		}
		// Objects of one kind are next to each other, and usually share a stream.
		if last == nil || last.Err != t.err || !last.Since.Equal(t.since) { //nolint:errorlint // whether it is the same one
			last = &WatchError{Err: t.err, Since: t.since}
		}
		watchErrors[i] = last
	}
	return watchErrors
}

// planSeed is the seed for hashes of plans. It differs between processes, because the hashes are used in one process
// only.
var planSeed = maphash.MakeSeed()

// planDigest identifies a plan.
func planDigest(plan Plan) uint64 {
	var h maphash.Hash
	h.SetSeed(planSeed)
	maphash.WriteComparable(&h, plan.Drift)
	maphash.WriteComparable(&h, plan.ListEvery)
	maphash.WriteComparable(&h, plan.Checker.Digest())
	if plan.Records != nil {
		maphash.WriteComparable(&h, *plan.Records)
	}
	for _, ref := range plan.Objects {
		maphash.WriteComparable(&h, ref)
	}
	return h.Sum64()
}
