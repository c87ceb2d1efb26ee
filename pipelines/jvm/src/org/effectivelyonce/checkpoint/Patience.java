package org.effectivelyonce.checkpoint;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.time.Duration;
import software.amazon.awssdk.awscore.retry.AwsRetryStrategy;
import software.amazon.awssdk.core.exception.SdkServiceException;
import software.amazon.awssdk.retries.api.AcquireInitialTokenRequest;
import software.amazon.awssdk.retries.api.AcquireInitialTokenResponse;
import software.amazon.awssdk.retries.api.BackoffStrategy;
import software.amazon.awssdk.retries.api.RecordSuccessRequest;
import software.amazon.awssdk.retries.api.RecordSuccessResponse;
import software.amazon.awssdk.retries.api.RefreshRetryTokenRequest;
import software.amazon.awssdk.retries.api.RefreshRetryTokenResponse;
import software.amazon.awssdk.retries.api.RetryStrategy;
import software.amazon.awssdk.retries.api.RetryToken;
import software.amazon.awssdk.retries.api.TokenAcquisitionFailedException;

/**
 * Repeats a request over a short outage of the store, for as long as the pipeline's other client of it does (30 s): a
 * store that restarts is back within some 10 s.
 *
 * <p>Worth repeating is what got no answer (refused, reset, timed out), an error of the server, what the SDK repeats of
 * itself (throttled, a clock that is off), and 409: another request on the object is under way. Every other answer, 412
 * before all, is one.
 *
 * <p>The SDK's own strategies count attempts, which a refused connection uses up within seconds and one that hangs in
 * minutes; only their choice of errors and their pauses are taken from them.
 */
final class Patience implements RetryStrategy {
  private static final BackoffStrategy PAUSES = BackoffStrategy.exponentialDelay(Duration.ofMillis(100), Duration.ofSeconds(2));

  private record Repeated(RetryToken token, long beganNs) implements RetryToken {}

  private final RetryStrategy repeats = AwsRetryStrategy.standardRetryStrategy().toBuilder()
      .maxAttempts(Integer.MAX_VALUE)
      .circuitBreakerEnabled(false)
      .backoffStrategy(PAUSES)
      .throttlingBackoffStrategy(PAUSES)
      .retryOnException(Patience::worthRepeating)
      .build();
  private final long limitNs;

  Patience(Duration limit) {
    limitNs = limit.toNanos();
  }

  // 501: no later attempt is answered otherwise.
  private static boolean worthRepeating(Throwable failure) {
    return failure instanceof SdkServiceException answer
        && (answer.statusCode() == 409 || answer.statusCode() >= 500 && answer.statusCode() != 501);
  }

  /** Waits before what broke off is begun again, or throws it when that has been going on for too long. */
  void pause(int attempt, long beganNs, IOException broken) throws IOException {
    if (System.nanoTime() - beganNs >= limitNs) {
      throw broken;
    }
    try {
      Thread.sleep(PAUSES.computeDelay(attempt).toMillis());
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("interrupted after: " + broken.getMessage());
    }
  }

  @Override
  public AcquireInitialTokenResponse acquireInitialToken(AcquireInitialTokenRequest request) {
    AcquireInitialTokenResponse first = repeats.acquireInitialToken(request);
    return AcquireInitialTokenResponse.create(new Repeated(first.token(), System.nanoTime()), first.delay());
  }

  @Override
  public RefreshRetryTokenResponse refreshRetryToken(RefreshRetryTokenRequest request) {
    Repeated before = (Repeated) request.token();
    if (System.nanoTime() - before.beganNs() >= limitNs) {
      throw new TokenAcquisitionFailedException("the store was silent for too long", before, request.failure());
    }
    // MinIO asks for a minute's pause (Retry-After) while it starts, which takes it seconds.
    RefreshRetryTokenResponse next = repeats.refreshRetryToken(
        request.toBuilder().token(before.token()).suggestedDelay(Duration.ZERO).build());
    return RefreshRetryTokenResponse.create(new Repeated(next.token(), before.beganNs()), next.delay());
  }

  @Override
  public RecordSuccessResponse recordSuccess(RecordSuccessRequest request) {
    Repeated last = (Repeated) request.token();
    repeats.recordSuccess(RecordSuccessRequest.create(last.token()));
    return RecordSuccessResponse.create(last);
  }

  @Override
  public int maxAttempts() {
    return Integer.MAX_VALUE;
  }

  /** The client would build another strategy from {@link #toBuilder} to add its defaults, which are there already. */
  @Override
  public boolean useClientDefaults() {
    return false;
  }

  @Override
  public Builder<?, ?> toBuilder() {
    throw new UnsupportedOperationException("a client's patience is not changed");
  }
}
