package ledger

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Client sends the requests of one worker to a ledger.
type Client struct {
	url, worker string
	http        http.Client
}

// NewClient returns a client of the Server at url.
func NewClient(url, worker string) *Client {
	return &Client{url: url, worker: worker, http: http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Read returns the balance. The error wraps ErrStale if the token is stale.
func (c *Client) Read(ctx context.Context, token int64) (int64, error) {
	text, err := c.do(ctx, http.MethodGet, token, "")
	if err != nil {
		return 0, err
	}
	balance, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("ledger: read: %w", err)
	}
	return balance, nil
}

// Write sets the balance. The error wraps ErrStale if the token is stale.
func (c *Client) Write(ctx context.Context, token, balance int64) error {
	_, err := c.do(ctx, http.MethodPut, token, strconv.FormatInt(balance, 10))
	return err
}

func (c *Client) do(ctx context.Context, method string, token int64, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+"/balance", strings.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("ledger: %w", err)
	}
	req.Header.Set(tokenHeader, strconv.FormatInt(token, 10))
	req.Header.Set(workerHeader, c.worker)
	resp, err := c.http.Do(req)
	if err != nil {
		return "", fmt.Errorf("ledger: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", fmt.Errorf("ledger: %w", err)
	case resp.StatusCode == http.StatusPreconditionFailed:
		return "", fmt.Errorf("ledger: token %d: %w", token, ErrStale)
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("ledger: %s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
