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

// hashBytes is the size of a digest and of a hash: 128 bits, as 32 hexadecimal digits or 22 characters of base64. The
// hashes of 1,000 Clusters take 25 KB in a HelmOpRevision.
const hashBytes = 16

// IsRequired reports whether what a HelmOp rolls out must be approved.
func IsRequired(helmOp *addonsv1.HelmOp) bool {
	return helmOp.Spec.Rollout != nil && helmOp.Spec.Rollout.Approval == addonsv1.ApprovalPolicyRequired
}

// Hash returns the hash of a release in a Cluster: of its name and namespace, its chart, its values, its postRender and
// its options. cluster is the title of the Cluster, see [apiutil.TitleOf].
func Hash(cluster string, release *rollout.Release) string {
	return base64.RawURLEncoding.EncodeToString(shortDigest(cluster, release.Identity, release.Content))
}

// HashOfSpec returns the hash of a release in a Cluster by its spec, as the manager computes it from the same inputs.
func HashOfSpec(cluster string, spec *addonsv1.HelmOpReleaseSpec) (string, error) {
	release, err := rolloutstate.Release(spec)
	if err != nil {
		return "", err
	}
	return Hash(cluster, release), nil
}

// Digest returns the digest of the hashes of releases, which is what a user approves. The order does not matter.
func Digest(hashes []string) string {
	return hex.EncodeToString(shortDigest(slices.Sorted(slices.Values(hashes))...))
}

// shortDigest returns the first bytes of the SHA-256 of texts, each with its length.
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

// Revision is what a decision needs to know about a HelmOp revision.
type Revision struct {
	// Good is true if its rollout was complete once.
	Good bool

	// Approval is what was last approved of it; nil if nothing was.
	Approval *addonsv1.RevisionApproval
}

// Input is the input of a decision.
type Input struct {
	// Required is true if approvals are required.
	Required bool

	// Request is the request of a user, see [Request].
	Request string

	// Revisions are the HelmOp revisions by number.
	Revisions map[int64]Revision

	// State and Clusters are those of the plan of the rollout.
	State    rollout.State
	Clusters []rollout.Cluster
}

// Decision is what waits for an approval. The zero value is that nothing needs one.
type Decision struct {
	// Required is true if approvals are required and there is a HelmOp revision.
	Required bool

	// Revision is the number of the HelmOp revision to approve: the goal of the rollout.
	Revision int64

	// Digest is the digest to approve; if nothing waits, the last approved one. It is empty, and nothing can be approved,
	// while no release is known.
	Digest string

	// Unapproved is true if the HelmOp revision as a whole is not approved. Otherwise, only changed releases may wait.
	Unapproved bool

	// Waiting are the names of the Clusters in which an approval of the digest changes the release. If Unapproved, the
	// HelmOp revision may wait although it changes no release. Total is the number of the Clusters in the digest.
	Waiting []string
	Total   int

	// Refused is the digest that the request has instead of the present one; empty if there is no such request, or if
	// nothing waits.
	Refused string

	// Hashes are the hashes that must be stored before any step is carried out, with Digest, because the request has just
	// approved them. They are nil if it has not.
	Hashes []string

	// Begins is true if Hashes approve the HelmOp revision as a whole, so that its rollout begins.
	Begins bool

	// goal and own are the flags of the Clusters in the plan.
	goal, own []bool
}

// Waits reports whether something waits for an approval of the digest.
func (d *Decision) Waits() bool {
	return d.Unapproved || len(d.Waiting) > 0
}

// Apply sets what is not approved in the input of the plan that has the Clusters of the decision.
func (d *Decision) Apply(in *rollout.Input) {
	if !d.Required {
		return
	}
	in.Unapproved = d.Unapproved
	for i := range in.Clusters {
		in.Clusters[i].GoalUnapproved, in.Clusters[i].OwnUnapproved = d.goal[i], d.own[i]
	}
}

// Decide decides what waits for an approval.
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

// findWaiting sets what waits, by what is approved.
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

// waits reports whether a Cluster waits for an approval of its release under the goal.
func (d *Decision) waits(in Input, approved *records, c *rollout.Cluster, release *rollout.Release) bool {
	isReturn := d.Revision != in.State.Revision && c.Child != nil && c.Child.Revision != d.Revision
	switch {
	case isReturn || !changes(c, release):
		return false
	case d.Unapproved:
		return true
	case c.Child == nil:
		return false
	default:
		return !approved.has(d.Revision, c, release)
	}
}

// RevisionOf returns what an approval needs to know about a HelmOp revision.
func RevisionOf(revision *addonsv1.HelmOpRevision) Revision {
	return Revision{Good: revision.Status.Good, Approval: revision.Status.Approval}
}

// MayPin reports whether a user may pin a Cluster to a HelmOp revision, if approvals are required: if the revision was
// rolled out completely once, or the release was approved.
func MayPin(revision Revision, cluster string, release *rollout.Release) bool {
	return revision.Good || revision.Approval != nil && slices.Contains(revision.Approval.Releases, Hash(cluster, release))
}

// releaseAt returns the release of a Cluster under the goal of the rollout; nil if it is not known, or if the Cluster
// is pinned to a revision.
func releaseAt(c *rollout.Cluster, state rollout.State) *rollout.Release {
	if c.Pin != nil {
		return nil
	}
	if state.Goal() == state.Revision {
		return c.Target
	}
	return c.Good
}

// changes reports whether a release is not the one that a Cluster has been assigned.
func changes(c *rollout.Cluster, release *rollout.Release) bool {
	return c.Child == nil || c.Child.Identity != release.Identity || c.Child.Content != release.Content
}

// records finds approved hashes by the number of their HelmOp revision. Most revisions are not asked for.
type records struct {
	revisions map[int64]Revision
	hashes    map[int64]sets.Set[string]
}

// of returns the approved hashes of a HelmOp revision, and whether anything of it was approved.
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

// requested returns the digest that a request for a HelmOp revision has.
func requested(request string, revision int64) (digest string, ok bool) {
	number, digest, _ := strings.Cut(request, "/")
	return digest, number == strconv.FormatInt(revision, 10)
}

// isApproved reports whether a digest is the last approved one of a HelmOp revision. The annotation of an approval
// stays behind when a release changes later.
func isApproved(revision Revision, digest string) bool {
	return revision.Approval != nil && revision.Approval.Digest == digest
}
