// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

// hashBytes is the size of a digest and of a hash: 128 bits. In text, they have 32 hexadecimal digits or 22 characters
// of base64. So the hashes of 1,000 Clusters take 25 KB in a HelmOpRevision.
const hashBytes = 16

// IsRequired reports whether the rollouts of a HelmOp need approvals.
func IsRequired(helmOp *addonsv1.HelmOp) bool {
	return helmOp.Spec.Rollout != nil && helmOp.Spec.Rollout.Approval == addonsv1.ApprovalPolicyRequired
}

// Hash returns the hash of a release in a Cluster: a hash of its name and namespace, its chart, its values, its
// postRender and its options. cluster is the name of the Cluster from [apiutil.TitleOf].
func Hash(cluster string, release *rollout.Release) string {
	return base64.RawURLEncoding.EncodeToString(shortDigest(cluster, release.Identity, release.Content))
}

// HashOfSpec returns the hash of a release in a Cluster, computed from the spec of the release. It is the hash that the
// manager computes from the same inputs.
func HashOfSpec(cluster string, spec *addonsv1.HelmOpReleaseSpec) (string, error) {
	release, err := rolloutstate.Release(spec)
	if err != nil {
		return "", err
	}
	return Hash(cluster, release), nil
}

// Digest returns the digest of the hashes of releases. A user approves this digest. The order of the hashes does not
// matter.
func Digest(hashes []string) string {
	return hex.EncodeToString(shortDigest(slices.Sorted(slices.Values(hashes))...))
}

// shortDigest returns the first bytes of a SHA-256 over the texts and the length of each text.
func shortDigest(texts ...string) []byte {
	hash := sha256.New()
	for _, text := range texts {
		_, _ = fmt.Fprintf(hash, "%d ", len(text))
		_, _ = io.WriteString(hash, text)
	}
	return hash.Sum(nil)[:hashBytes]
}

// Request returns the value of the annotation that approves a digest of a HelmOp revision.
func Request(revision int64, digest string) string {
	return fmt.Sprintf("%d/%s", revision, digest)
}

// Revision is the part of a HelmOp revision that a decision needs.
type Revision struct {
	// Good is true if the rollout of the revision was complete once.
	Good bool

	// Approval is the last approval of the revision; nil if there was none.
	Approval *addonsv1.RevisionApproval
}

// Input is the input of a decision.
type Input struct {
	// Required is true if approvals are required.
	Required bool

	// Request is the approval that a user requests, see [Request].
	Request string

	// Revisions holds the HelmOp revisions by number.
	Revisions map[int64]Revision

	// State and Clusters are the inputs of the plan of the rollout.
	State    rollout.State
	Clusters []rollout.Cluster
}

// Decision says which Clusters wait for an approval, and which digest a user must approve. The zero value means that
// nothing needs an approval.
type Decision struct {
	// Required is true if approvals are required and there is a HelmOp revision.
	Required bool

	// Revision is the number of the HelmOp revision to approve: the goal of the rollout.
	Revision int64

	// Digest is the digest to approve. If nothing waits, it is the last approved digest. It is empty while no release is
	// known: then nothing can be approved.
	Digest string

	// Unapproved is true if the HelmOp revision as a whole is not approved. Otherwise, only changed releases may wait.
	Unapproved bool

	// Waiting are the names of the Clusters whose release changes with an approval of the digest. If Unapproved is true,
	// Waiting may be empty: the HelmOp revision then changes no release. Total is the number of the Clusters in the
	// digest.
	Waiting []string
	Total   int

	// Refused is the digest in a request that does not match Digest; empty if there is no such request, or if nothing
	// waits.
	Refused string

	// Hashes are the hashes that the request has just approved. The caller must store them with Digest before it carries
	// out any step. Hashes is nil if the request approves nothing new.
	Hashes []string

	// Begins is true if Hashes approve the HelmOp revision as a whole. Its rollout then begins.
	Begins bool

	// goal and own are flags of the Clusters, for the input of the plan.
	goal, own []bool
}

// Waits reports whether something waits for an approval of the digest.
func (d *Decision) Waits() bool {
	return d.Unapproved || len(d.Waiting) > 0
}

// Apply marks the releases in the input of the plan that are not approved. The input must have the Clusters of the
// decision.
func (d *Decision) Apply(in *rollout.Input) {
	if !d.Required {
		return
	}
	in.Unapproved = d.Unapproved
	for i := range in.Clusters {
		in.Clusters[i].GoalUnapproved, in.Clusters[i].OwnUnapproved = d.goal[i], d.own[i]
	}
}

// Decide decides which Clusters wait for an approval.
func Decide(in Input) Decision {
	goal := in.State.Goal()
	if !in.Required || goal == 0 {
		return Decision{}
	}
	d := Decision{Required: true, Revision: goal}
	d.goal, d.own = make([]bool, len(in.Clusters)), make([]bool, len(in.Clusters))
	approved := &records{revisions: in.Revisions, hashes: map[int64]sets.Set[string]{}}
	hashes := make([]string, 0, len(in.Clusters))
	for i := range in.Clusters {
		c := &in.Clusters[i]
		if release := releaseAt(c, in.State); release != nil {
			hashes = append(hashes, Hash(c.Name, release))
		}
	}
	slices.Sort(hashes)
	if d.Total = len(hashes); d.Total > 0 {
		d.Digest = Digest(hashes)
	}
	d.findWaiting(in, approved)
	if !d.Waits() {
		if known := in.Revisions[goal].Approval; known != nil {
			d.Digest = known.Digest
		}
		return d
	}
	switch digest, ok := requested(in.Request, goal); {
	case d.Digest == "":
	case ok && digest == d.Digest:
		d.Hashes, d.Begins = hashes, d.Unapproved
		approved.hashes[goal] = sets.New(hashes...)
		d.findWaiting(in, approved)
	case ok && !isApproved(in.Revisions[goal], digest):
		d.Refused = digest
	}
	return d
}

// findWaiting sets which Clusters wait, by the approved hashes.
func (d *Decision) findWaiting(in Input, approved *records) {
	_, isRecorded := approved.of(d.Revision)
	d.Unapproved, d.Waiting = !isRecorded && !in.Revisions[d.Revision].Good, nil
	for i := range in.Clusters {
		c := &in.Clusters[i]
		release := releaseAt(c, in.State)
		d.own[i] = c.Own != nil && c.Child != nil && changes(c, c.Own) && !approved.has(c.Child.Revision, c, c.Own)
		d.goal[i] = release != nil && d.waits(in, approved, c, release)
		if d.goal[i] {
			d.Waiting = append(d.Waiting, c.Name)
		}
	}
}

// waits reports whether a Cluster waits for an approval of its release in the goal of the rollout.
func (d *Decision) waits(in Input, approved *records, c *rollout.Cluster, release *rollout.Release) bool {
	isReturn := d.Revision != in.State.Revision && c.Child != nil && c.Child.Revision != d.Revision
	switch {
	case isReturn || !changes(c, release):
		return false
	case d.Unapproved:
		return true
	case c.Child == nil || c.Child.OfFormerCluster || hasJoinedSince(in, c):
		return false
	default:
		return !approved.has(d.Revision, c, release)
	}
}

// hasJoinedSince reports whether a Cluster is new since the approval of the current revision. Such a Cluster was not in
// the approved digest. It has the last known good revision until its wave begins, and then gets the approved revision
// like a Cluster without a release. But if its inputs changed meanwhile, this change needs an approval.
func hasJoinedSince(in Input, c *rollout.Cluster) bool {
	approval := in.Revisions[in.State.Revision].Approval
	return approval != nil && c.Child.Joined && c.Child.Revision == in.State.Good &&
		!c.Child.AssignedAt.Before(approval.ApprovedAt.Time) && c.Own != nil && !changes(c, c.Own)
}

// RevisionOf returns what an approval needs to know about a HelmOp revision.
func RevisionOf(revision *addonsv1.HelmOpRevision) Revision {
	return Revision{Good: revision.Status.Good, Approval: revision.Status.Approval}
}

// MayPin reports whether a user may pin a Cluster to a HelmOp revision while approvals are required. The user may do so
// if the revision was rolled out completely once, or if the release was approved.
func MayPin(revision Revision, cluster string, release *rollout.Release) bool {
	return revision.Good || revision.Approval != nil && slices.Contains(revision.Approval.Releases, Hash(cluster, release))
}

// releaseAt returns the release of a Cluster in the goal of the rollout. It returns nil if the release is not known, or
// if the Cluster is pinned to a revision.
func releaseAt(c *rollout.Cluster, state rollout.State) *rollout.Release {
	if c.Pin != nil {
		return nil
	}
	if state.Goal() == state.Revision {
		return c.Target
	}
	return c.Good
}

// changes reports whether a release differs from the release that is assigned to a Cluster.
func changes(c *rollout.Cluster, release *rollout.Release) bool {
	return c.Child == nil || c.Child.Identity != release.Identity || c.Child.Content != release.Content
}

// records finds approved hashes by the number of their HelmOp revision. It reads hashes only when they are needed: most
// revisions are not needed.
type records struct {
	revisions map[int64]Revision
	hashes    map[int64]sets.Set[string]
}

// of returns the approved hashes of a HelmOp revision. ok is false if nothing of the revision was approved.
func (r *records) of(revision int64) (hashes sets.Set[string], ok bool) {
	if hashes, ok = r.hashes[revision]; ok {
		return hashes, true
	}
	approval := r.revisions[revision].Approval
	if approval == nil {
		return nil, false
	}
	r.hashes[revision] = sets.New(approval.Releases...)
	return r.hashes[revision], true
}

func (r *records) has(revision int64, c *rollout.Cluster, release *rollout.Release) bool {
	hashes, _ := r.of(revision)
	return hashes.Has(Hash(c.Name, release))
}

// requested returns the digest in a request for a HelmOp revision.
func requested(request string, revision int64) (digest string, ok bool) {
	number, digest, _ := strings.Cut(request, "/")
	return digest, number == strconv.FormatInt(revision, 10)
}

// isApproved reports whether a digest is the last approved digest of a HelmOp revision. The annotation of an approval
// remains when a release changes later.
func isApproved(revision Revision, digest string) bool {
	return revision.Approval != nil && revision.Approval.Digest == digest
}
