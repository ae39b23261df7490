// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// rules are the limits from one author.
type rules struct {
	// whose names the author in messages: "the HelmOp" or "the Cluster".
	whose   string
	windows []window
	freezes []freeze
	veto    string
	// invalid says why the limits cannot be parsed; empty if they are valid.
	invalid string
	// key identifies the windows and freezes in caches.
	key string
}

// nextOpening returns when the next window opens; zero if no window opens.
func (r *rules) nextOpening(after time.Time) time.Time {
	var next time.Time
	for _, w := range r.windows {
		if opens := w.next(after); !opens.IsZero() && (next.IsZero() || opens.Before(next)) {
			next = opens
		}
	}
	return next
}

// rulesOfSpec parses the limits of a HelmOp.
func rulesOfSpec(spec *addonsv1.Maintenance) *rules {
	r := &rules{whose: "the HelmOp", veto: clip(spec.Veto)}
	var key strings.Builder
	for i, w := range spec.Windows {
		parsed, err := newWindow(w.Schedule, w.Duration.Duration, w.TimeZone)
		if err != nil {
			r.invalid = fmt.Sprintf("spec.maintenance.windows[%d]: %v", i, err)
			return r
		}
		r.windows = append(r.windows, parsed)
		fmt.Fprintf(&key, "%q %s %q;", w.Schedule, w.Duration.Duration, w.TimeZone)
	}
	for _, f := range spec.Freezes {
		r.freezes = append(r.freezes, freeze{from: f.From.Time, until: f.Until.Time, reason: f.Reason})
		fmt.Fprintf(&key, "%d/%d;", f.From.Unix(), f.Until.Unix())
	}
	r.key = key.String()
	return r
}

const (
	// maxText is the largest value of an annotation, in bytes. maxInvalid is the longest error in messages, in bytes.
	maxText, maxInvalid = 8 << 10, 1 << 10

	// maxParsed is the size of the cache of parsed rules, in bytes. parsedBytes and parsedBytesOfText are the estimated
	// sizes of parsed rules and of what is parsed from a byte of a text.
	maxParsed, parsedBytes, parsedBytesOfText = 1 << 20, 1 << 10, 16
)

// parsedRules caches the rules of annotations by their digests. The Clusters of a fleet have few different annotations,
// and a pass over a HelmOp needs the rules for each Cluster.
var parsedRules = bytelru.New[[sha256.Size]byte, *rules](maxParsed)

// rulesOfCluster parses the limits in the annotations of a Cluster; nil if there are none.
func rulesOfCluster(annotations map[string]string) *rules {
	windows, hasWindows := annotations[addonsv1.MaintenanceWindowsAnnotation]
	freezes, hasFreezes := annotations[addonsv1.MaintenanceFreezesAnnotation]
	veto, hasVeto := annotations[addonsv1.MaintenanceVetoAnnotation]
	if !hasWindows && !hasFreezes && !hasVeto {
		return nil
	}
	var r rules
	switch {
	case len(windows) > maxText:
		r.refuse(addonsv1.MaintenanceWindowsAnnotation, errTooLong)
	case len(freezes) > maxText:
		r.refuse(addonsv1.MaintenanceFreezesAnnotation, errTooLong)
	case hasWindows && windows == "":
		r.refuse(addonsv1.MaintenanceWindowsAnnotation, errEmpty)
	case hasFreezes && freezes == "":
		r.refuse(addonsv1.MaintenanceFreezesAnnotation, errEmpty)
	default:
		r = rulesOfTexts(windows, freezes)
	}
	r.whose = "the Cluster"
	if hasVeto {
		if r.veto = clip(strings.TrimSpace(veto)); r.veto == "" {
			r.veto = "without a reason"
		}
	}
	return &r
}

var (
	errEmpty   = errors.New("it is empty; remove the annotation, or add an entry")
	errTooLong = fmt.Errorf("it has more than %d KiB", maxText>>10)
)

// rulesOfTexts parses windows and freezes. An empty text means none.
func rulesOfTexts(windows, freezes string) rules {
	digest := sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(windows), windows, freezes))
	if known, ok := parsedRules.Get(digest); ok {
		return *known
	}
	r := rules{key: hex.EncodeToString(digest[:])}
	var err error
	if r.windows, err = parseEach(windows, parseWindow); err != nil {
		r.refuse(addonsv1.MaintenanceWindowsAnnotation, err)
	} else if r.freezes, err = parseEach(freezes, parseFreeze); err != nil {
		r.refuse(addonsv1.MaintenanceFreezesAnnotation, err)
	}
	parsedRules.Put(digest, &r, int64(parsedBytes+parsedBytesOfText*(len(windows)+len(freezes))))
	return r
}

// refuse records that an annotation cannot be parsed.
func (r *rules) refuse(annotation string, err error) {
	r.invalid = fmt.Sprintf("the annotation %s of the Cluster is not valid: %s", annotation,
		truncate.Text(err.Error(), maxInvalid))
}
