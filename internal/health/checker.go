// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// maxMessageBytes is the longest message about one object, in bytes.
const maxMessageBytes = 256

// Digest identifies the checks of a Checker.
type Digest [sha256.Size]byte

// compiled caches checkers by their checks. A thousand releases of one HelmOp share one Checker.
var compiled = func() *lru.Cache[Digest, *Checker] {
	cache, err := lru.New[Digest, *Checker](256)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return cache
}()

// Checker determines the health of objects. It is safe for concurrent use.
type Checker struct {
	digest Digest
	byKind map[schema.GroupVersionKind]*expressions
}

// NewChecker returns a Checker. Repeated calls with the same checks are cheap. If two checks have the same kind, the
// first check applies. An error names the index of the check, the field and the cause.
func NewChecker(checks []Check) (*Checker, error) {
	encoded, err := json.Marshal(checks)
	if err != nil {
		return nil, fmt.Errorf("health checks: %w", err)
	}
	if len(checks) == 0 {
		encoded = nil
	}
	digest := Digest(sha256.Sum256(encoded))
	if checker, ok := compiled.Get(digest); ok {
		return checker, nil
	}
	checker := &Checker{digest: digest, byKind: make(map[schema.GroupVersionKind]*expressions, len(checks))}
	for i, check := range checks {
		expressions, err := compile(check)
		if err != nil {
			return nil, fmt.Errorf("checks[%d].%w", i, err)
		}
		gv, err := schema.ParseGroupVersion(check.APIVersion)
		if err != nil {
			return nil, fmt.Errorf("checks[%d].apiVersion: %w", i, err)
		}
		if gvk := gv.WithKind(check.Kind); checker.byKind[gvk] == nil {
			checker.byKind[gvk] = expressions
		}
	}
	compiled.Add(digest, checker)
	return checker, nil
}

// Digest returns the digest of the checks: checkers that were made from the same checks have the same digest. The
// digest of a nil Checker is the zero value.
func (c *Checker) Digest() Digest {
	if c == nil {
		return Digest{}
	}
	return c.digest
}

// Equal reports whether two checkers, which may be nil, were made from the same checks.
func (c *Checker) Equal(other *Checker) bool { return c.Digest() == other.Digest() }

// Has reports whether there is a check for the kind.
func (c *Checker) Has(gvk schema.GroupVersionKind) bool {
	return c.byKind[gvk] != nil
}

// Check returns the health of an object as it was read from a cluster. The message is the cause if the object is not
// current; otherwise the message is empty. The message has a limited length. It contains nothing of the object except
// reasons and messages of conditions.
//
// version is the version of the object in its manifest. The cluster may serve the kind only in another version. If
// there is no check for the other version, the check for this version applies.
func (c *Checker) Check(obj *unstructured.Unstructured, version string) (status Status, message string) {
	// kstatus panics if an object does not have the form of its kind. Objects of custom kinds can have any form.
	defer func() {
		if recover() != nil {
			status, message = Unknown, "its status cannot be evaluated"
		}
	}()
	switch {
	case obj == nil || obj.Object == nil:
		return NotFound, "does not exist"
	case obj.GetDeletionTimestamp() != nil:
		return Terminating, "is being deleted"
	}
	gvk := obj.GroupVersionKind()
	if expressions := cmp.Or(c.byKind[gvk], c.byKind[gvk.GroupKind().WithVersion(version)]); expressions != nil {
		status, message = expressions.evaluate(obj)
	} else {
		status, message = builtIn(obj)
	}
	return status, truncate.Text(message, maxMessageBytes)
}
