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

// maxLoneStreams is how many objects of one release get a stream of their own because they lost Helm's label.
const maxLoneStreams = 16

// release is the state of a followed release. The Watcher's lock guards it.
type release struct {
	key     types.NamespacedName
	digest  uint64
	checker *health.Checker
	drift   bool
	// link is nil while its cluster is disconnected.
	link *link
	// unlinked is why there is no link.
	unlinked trouble
	// stuckSince and healthStuckSince are the begins of the lasting errors when the release was last requested because of
	// them: for all followed objects, and for those whose health is followed.
	stuckSince, healthStuckSince time.Time
	// objects are sorted by their names.
	objects []object
	// unknown is the number of objects, and sets of records, that were not seen since the plan was given.
	unknown int
	// unjudged is the number of those among them whose health is followed.
	unjudged int
	lone     int
	// listEvery and listSoon are those of the plan, for the objects that are listed.
	listEvery time.Duration
	listSoon  bool
	// isAsked means that a caller of Watcher.List waits until all listed objects are known.
	isAsked bool

	recordsRef    *RecordsRef
	records       map[string]uint64
	recordsKnown  bool
	recordsStream *stream
}

// object is the state of one object. Its texts are shared between releases and clusters.
type object struct {
	ref         unique.Handle[inventory.Ref]
	fingerprint uint64
	uid         types.UID
	generation  int64
	message     unique.Handle[string]
	manager     unique.Handle[string]
	verdict     unique.Handle[health.Verdict]
	// stream is the stream of the object, nil until its kind is discovered.
	stream                *stream
	known, exists, optOut bool
	// moved is whether clusterctl took the object to another management cluster, or is about to.
	moved bool
	// judged is whether its health is followed, listed whether nothing but its existence is.
	judged, listed bool
}

// finding is an observed state of an object.
type finding struct {
	exists, optOut, moved bool
	fingerprint           uint64
	uid                   types.UID
	generation            int64
	isVersion             bool
	manager               string
	verdict               health.Verdict
	message               string
}

var absent = finding{verdict: health.NotFound, message: "does not exist"}

// newRelease returns a release about which nothing is known, and asks no cluster.
func newRelease(key types.NamespacedName, digest uint64, plan Plan) *release {
	r := &release{key: key, digest: digest, checker: plan.Checker, drift: plan.Drift, listEvery: plan.ListEvery,
		listSoon: plan.ListSoon}
	if plan.Records != nil {
		records := *plan.Records
		r.recordsRef, r.unknown = &records, 1
	}
	refs := make([]inventory.Ref, 0, len(plan.Objects))
	for _, ref := range plan.Objects {
		if plan.Drift || plan.ListEvery > 0 || r.judges(ref) {
			refs = append(refs, ref)
		}
	}
	inventory.Sort(refs)
	refs = slices.Compact(refs)
	refs = refs[:min(len(refs), MaxObjects)]
	r.objects = make([]object, len(refs))
	r.unknown += len(refs)
	for i, ref := range refs {
		judged := r.judges(ref)
		o := object{judged: judged, listed: !judged && !plan.Drift, ref: unique.Make(ref),
			verdict: unique.Make(health.Unknown), message: unique.Make(""), manager: unique.Make("")}
		switch {
		case judged:
			r.unjudged++
		case o.listed:
			// The object counts as existing, and no caller waits for the next list.
			o.exists = true
			r.unknown--
		}
		r.objects[i] = o
	}
	return r
}

// judges reports whether the health of an object is followed, more than that it exists.
func (r *release) judges(ref inventory.Ref) bool {
	gvk := ref.GroupVersionKind()
	return r.checker != nil && (inventory.HasHealth(gvk) || r.checker.Has(gvk))
}

// recall takes over the state of a predecessor. Known states stay known if they came from the same link and the same
// checker.
func (r *release) recall(old *release) {
	r.isAsked, r.listSoon = old.isAsked, r.listSoon && old.link != r.link
	certain := old.link != nil && old.link == r.link && old.checker.Equal(r.checker) && old.drift == r.drift
	known := make(map[unique.Handle[inventory.Ref]]*object, len(old.objects))
	for i := range old.objects {
		known[old.objects[i].ref] = &old.objects[i]
	}
	for i := range r.objects {
		before, ok := known[r.objects[i].ref]
		if !ok {
			continue
		}
		if before.listed != r.objects[i].listed {
			continue
		}
		after := *before
		after.judged, after.known = r.objects[i].judged, false
		if !certain {
			after.stream = nil
		}
		r.objects[i] = after
		r.setKnown(i, certain && before.known)
	}
	if r.recordsRef != nil && old.recordsRef != nil && *r.recordsRef == *old.recordsRef {
		r.records = old.records
		if r.recordsKnown = old.recordsKnown && old.link == r.link; r.recordsKnown {
			r.unknown--
		}
	}
}

// setKnown notes whether an object is known.
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
	if o.judged {
		r.unjudged += change
	}
}

// apply takes a finding about an object and reports whether the release must be reconciled: first when all objects are
// known, and for its health when all objects with followed health are. The others may never become known.
func (r *release) apply(i int, f finding) bool {
	o := &r.objects[i]
	if o.listed {
		return r.applyListed(i, f)
	}
	after := *o
	after.exists, after.optOut, after.fingerprint = f.exists, f.optOut, f.fingerprint
	// For a deleted object, its last observed state counts.
	after.moved = f.moved || !f.exists && o.moved
	after.uid, after.generation = f.uid, f.generation
	after.manager, after.verdict, after.message = unique.Make(f.manager), unique.Make(f.verdict), unique.Make(f.message)
	before := *o
	if f.isVersion {
		// The accompanying change is reported otherwise, or is irrelevant.
		before.generation = after.generation
	}
	changed := after != before || !o.known
	*o = after
	r.setKnown(i, true)
	return changed && (r.unknown == 0 || o.judged && r.unjudged == 0)
}

// applyRecords takes the records of the release and reports whether the release must be reconciled.
func (r *release) applyRecords(changed bool) bool {
	if !r.recordsKnown {
		r.recordsKnown = true
		r.unknown--
		changed = true
	}
	return changed && r.unknown == 0
}

// forgetCertainty makes everything known be doubted, because streams have ended.
func (r *release) forgetCertainty() {
	for i := range r.objects {
		r.setKnown(i, false)
		r.objects[i].stream = nil
	}
	if r.recordsKnown {
		r.unknown++
	}
	r.recordsKnown, r.recordsStream, r.lone = false, nil, 0
}

// troubleOf returns the error that prevents following an object, or none.
func (r *release) troubleOf(i int) trouble {
	switch o := &r.objects[i]; {
	case r.link == nil:
		return r.unlinked
	case o.stream != nil:
		return o.stream.trouble
	default:
		return r.link.chores.kinds[o.ref.Value().GroupVersionKind()].trouble
	}
}

// trouble returns the errors that have lasted longest, or none: among all followed objects, and among the objects whose
// health is followed.
func (r *release) trouble() (worst, health trouble) {
	if r.link == nil {
		worst = r.unlinked
	} else if r.recordsStream != nil {
		worst = r.recordsStream.trouble
	}
	for i := range r.objects {
		t := r.troubleOf(i)
		worst = worst.older(t)
		if r.objects[i].judged {
			health = health.older(t)
		}
	}
	return worst, health
}

// troubles returns the error of each object, nil if there is none.
func (r *release) troubles() []*Trouble {
	troubles := make([]*Trouble, len(r.objects))
	var last *Trouble
	for i := range r.objects {
		t := r.troubleOf(i)
		if t.err == nil {
			continue
		}
		// Objects of one kind, which mostly share a stream, are next to each other.
		if last == nil || last.Err != t.err || !last.Since.Equal(t.since) { //nolint:errorlint // whether it is the same one
			last = &Trouble{Err: t.err, Since: t.since}
		}
		troubles[i] = last
	}
	return troubles
}

// planSeed makes hashes of plans differ between processes; they never leave one.
var planSeed = maphash.MakeSeed()

// planDigest identifies a plan.
func planDigest(plan Plan) uint64 {
	var h maphash.Hash
	h.SetSeed(planSeed)
	maphash.WriteComparable(&h, plan.Drift)
	maphash.WriteComparable(&h, plan.ListEvery)
	maphash.WriteComparable(&h, plan.Checker)
	if plan.Records != nil {
		maphash.WriteComparable(&h, *plan.Records)
	}
	for _, ref := range plan.Objects {
		maphash.WriteComparable(&h, ref)
	}
	return h.Sum64()
}
