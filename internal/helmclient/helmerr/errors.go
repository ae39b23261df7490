// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmerr

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"

	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

var (
	// ErrRequestDeadline is the error of a request without a response within its deadline.
	ErrRequestDeadline = errors.New("the cluster did not respond in time")

	// ErrNoMemory is the error of a response for which no memory is free. It counts as an unreachable cluster, because a
	// later attempt may succeed.
	ErrNoMemory = errors.New("no memory is free for the response of the cluster: too many large responses are being " +
		"read; retrying")
)

// These are the kinds of errors. Compare errors with errors.Is. An [Error] without one of these kinds means that Helm
// or the cluster rejected the release itself.
var (
	// ErrUnreachable means that the cluster did not respond, or could not serve the request: try again later.
	ErrUnreachable = errors.New("cluster unreachable")
	// ErrUnauthorized means that the cluster does not accept the credentials.
	ErrUnauthorized = errors.New("credentials rejected")
	// ErrForbidden means that the credentials lack a permission that the release needs.
	ErrForbidden = errors.New("not permitted")
	// ErrConflict means that an object of the release exists and has another owner.
	ErrConflict = errors.New("object has another owner")
	// ErrWouldChange means that the release of another owner was not adopted, because the adoption would change it.
	ErrWouldChange = errors.New("the release is not adopted")
	// ErrStale means that the release changed since it was observed: observe and decide again.
	ErrStale = errors.New("release changed since it was observed")
	// ErrTooLarge means that the release is too large for Helm's storage, or for the memory of the manager.
	ErrTooLarge = errors.New("release too large")
	// ErrInvalidValues means that the values do not match the chart's schema.
	ErrInvalidValues = rendering.ErrInvalidValues
	// ErrInvalidChart means that the chart cannot be rendered, or is not an application chart.
	ErrInvalidChart = rendering.ErrInvalidChart
	// ErrChartFailed means that a template of the chart called fail or required: the chart requires other values, or
	// another cluster.
	ErrChartFailed = errors.New("chart template failed")
	// ErrKindNotServed means that the cluster does not serve the kind of an object of the release.
	ErrKindNotServed = errors.New("kind not served")
	// ErrPostRender means that the patches cannot be applied to the rendered manifest.
	ErrPostRender = rendering.ErrPostRender
	// ErrRecordStorage means that the store for records outside of the cluster does not respond, or rejects a request.
	// Either the action changed nothing, or its record was saved although the request failed. Try again later.
	ErrRecordStorage = errors.New("record storage failed")
	// ErrRecordDamaged means that a part of a record is missing, was changed, or cannot be decoded.
	ErrRecordDamaged = errors.New("release record damaged")
	// ErrRefused means that [model.Options].Admit rejected the deletions of the action, which changed nothing.
	ErrRefused = errors.New("deletions are not confirmed")
	// ErrRenderLimit means that rendering the chart exceeded its memory or time and was stopped. The message names the
	// template.
	ErrRenderLimit = rendering.ErrLimit
	// ErrTimeout means that the action, or one of its hooks, took longer than allowed.
	ErrTimeout = errors.New("timed out")
	// ErrBusy means that the manager has no memory or no renderer for the release at this time. The action has changed
	// nothing that another try does not repeat: see package actionmemory.
	ErrBusy = rendering.ErrBusy
)

// Error is the error of an observation or an action. Its text names the cause and holds no values of the release. It
// does not wrap the original error, because the original error may hold values.
type Error struct {
	// Kind is one of the Err variables, or nil.
	Kind error
	// Action is the action that failed; empty for an observation.
	Action model.Action
	// StorageChanged is true if Helm's storage in the cluster changed. Otherwise the action created no revision, and the
	// error does not count as a failed revision.
	StorageChanged bool
	// Message is the cause.
	Message string
	// Logs are the last lines that Helm logged.
	Logs []string
}

// Error returns the action and the cause.
func (e *Error) Error() string {
	text := e.Message
	if e.Kind != nil {
		text = e.Kind.Error() + ": " + text
	}
	if e.Action != "" {
		text = strings.ToLower(string(e.Action)) + ": " + text
	}
	return text
}

// Is reports whether target is the kind of the error.
func (e *Error) Is(target error) bool { return e.Kind != nil && target == e.Kind }

// New returns an error of a kind.
func New(kind error, format string, args ...any) error {
	return rendering.Errorf(kind, format, args...)
}

// Classify returns the kind of an error; nil if it has none. Helm converts many errors to text, so Classify matches the
// text if the chain of errors has no kind. Texts that quote another program come first: see quotingKinds.
func Classify(err error) error {
	var own *rendering.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own.Kind
	case errors.Is(err, driver.ErrReleaseExists):
		return ErrStale
	}
	text := err.Error()
	if kind, ok := kindOfText(text, quotingKinds); ok {
		return kind
	}
	if kind, ok := classifyStatus(err); ok {
		return kind
	}
	if IsNetworkError(err) {
		return ErrUnreachable
	}
	kind, _ := kindOfText(text, textKinds)
	return kind
}

// Denial is a pattern of the texts of admission webhooks ("denied the request") and of admission policies ("denied
// request") that refuse an object.
const Denial = `denied (?:the )?request`

// refusedByPolicy matches rejections of an object by a policy. For them, the API server uses the same code as for
// missing permissions.
var refusedByPolicy = regexp.MustCompile(Denial + `|exceeded quota|violates PodSecurity|must specify (?:limits|requests)|(?:maximum|minimum) (?:cpu|memory)`)

// classifyStatus classifies the error responses of an API server; ok is false for other errors. The kind is nil if the
// cluster rejected the release itself.
func classifyStatus(err error) (kind error, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil, false
	}
	switch code := int(status.Status().Code); {
	case apierrors.IsUnauthorized(err):
		return ErrUnauthorized, true
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, true
	case apierrors.IsForbidden(err) && refusedByPolicy.MatchString(err.Error()):
		return nil, true
	case apierrors.IsForbidden(err):
		return ErrForbidden, true
	case apierrors.IsRequestEntityTooLargeError(err):
		return ErrTooLarge, true
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err),
		code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return ErrUnreachable, true
	}
	return nil, false
}

// IsNetworkError reports whether there was no response, or an incomplete response.
func IsNetworkError(err error) bool {
	var netErr net.Error
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrRequestDeadline) || errors.Is(err, ErrNoMemory) ||
		errors.Is(err, context.DeadlineExceeded) || utilnet.IsProbableEOF(err) ||
		utilnet.IsHTTP2ConnectionLost(err) || errors.As(err, &netErr)
}

// conflicting matches Helm's error for an object that exists and does not belong to the release.
var conflicting = regexp.MustCompile(`exists and cannot be imported into the current release`)

// silentWebhook matches errors about a webhook of the cluster that did not answer. The API server itself answered.
var silentWebhook = regexp.MustCompile(`failed calling webhook|conversion webhook for .* failed`)

// IsSilentWebhook reports whether the cause of an error, which may be nil, is a webhook of the cluster that did not
// answer. The API server refuses the request then, although it would accept the object.
func IsSilentWebhook(err error) bool { return err != nil && silentWebhook.MatchString(err.Error()) }

// textKind is the kind of the errors whose text matches a pattern.
type textKind struct {
	pattern *regexp.Regexp
	kind    error
}

// quotingKinds lists patterns of errors that quote another author: of a template of the chart, of a webhook or of an
// admission policy. The quoted text may match any pattern of textKinds, for example "connection refused". The first
// match applies.
var quotingKinds = []textKind{
	{regexp.MustCompile(`execution error at \(`), ErrChartFailed},
	{silentWebhook, nil},
	{regexp.MustCompile(Denial), nil},
}

// textKinds lists patterns of errors that Helm converted to text. The first match applies.
var textKinds = []textKind{
	{conflicting, ErrConflict},
	{regexp.MustCompile(`cannot re-use a name that is still in use|another operation \(install/upgrade/rollback\) is in progress|has no deployed releases`), ErrStale},
	{regexp.MustCompile(`sh\.helm\.release\.v1\..* is invalid: .*Too long|request is too large|Request entity too large`),
		ErrTooLarge},
	{regexp.MustCompile(`because it is being terminated`), nil},
	{regexp.MustCompile(regexp.QuoteMeta(ErrNoMemory.Error()) + `|` + regexp.QuoteMeta(ErrRequestDeadline.Error()) +
		`|: EOF\b|connection refused|connection reset|no such host|no route to host|i/o timeout|TLS handshake timeout|etcdserver: |http2: client connection lost|unexpected EOF|server is currently unable to handle the request|unable to retrieve the complete list of server APIs|the server was unable to return a response in the time allotted`), ErrUnreachable},
	{regexp.MustCompile(`Unauthorized|the server has asked for the client to provide credentials`), ErrUnauthorized},
	{regexp.MustCompile(` is forbidden: User `), ErrForbidden},
	{regexp.MustCompile(`timed out waiting for the condition|context deadline exceeded`), ErrTimeout},
	{regexp.MustCompile(`resource mapping not found for name: .*no matches for kind`), ErrKindNotServed},
	{regexp.MustCompile(`YAML parse error|parse error at|template: |error converting YAML|chart requires kubeVersion|validation: chart\.metadata|unable to build kubernetes objects from release manifest`), ErrInvalidChart},
}

// kindOfText returns the kind of the first pattern that matches a text. ok is false if no pattern matches.
func kindOfText(text string, kinds []textKind) (kind error, ok bool) {
	for _, entry := range kinds {
		if entry.pattern.MatchString(text) {
			return entry.kind, true
		}
	}
	return nil, false
}

// IgnoreNotFound returns nil if the error means that an object does not exist, and the error otherwise.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Observing returns the error of an observation with its kind and without values.
func Observing(err error) *Error {
	return &Error{Kind: Classify(err), Message: redactor{}.text(err.Error())}
}

// Acting returns the error of an action, classified and without values. The text of [ErrRefused] is only shortened: it
// has names, numbers and a command, which a user must be able to run. deletions are the errors of the deletions of the
// action, or nil.
func Acting(action model.Action, err, deletions error, logs *LogBuffer) *Error {
	kind, text := Classify(err), err.Error()
	if errors.Is(kind, ErrConflict) {
		text = Explain(err).Error()
	}
	if deletions != nil {
		text += ": " + deletions.Error()
		if kind == nil {
			kind = Classify(deletions)
		}
	}
	message := logs.Text(text)
	if errors.Is(kind, ErrRefused) {
		message = redactor{}.text(text)
	}
	return &Error{Kind: kind, Action: action, Message: message, Logs: logs.Last()}
}
