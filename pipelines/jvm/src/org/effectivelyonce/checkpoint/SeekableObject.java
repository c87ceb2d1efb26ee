package org.effectivelyonce.checkpoint;

import java.io.EOFException;
import java.io.IOException;
import org.apache.hadoop.fs.FSInputStream;
import software.amazon.awssdk.core.ResponseInputStream;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;

/** A large object, read as it arrives; another position is another request, and so is the rest after a broken connection. */
final class SeekableObject extends FSInputStream {
  private final Bucket bucket;
  private final String key;
  private final long length;
  private final String etag;
  private ResponseInputStream<GetObjectResponse> stream;
  private long position;

  SeekableObject(Bucket bucket, String key, ResponseInputStream<GetObjectResponse> stream) {
    this.bucket = bucket;
    this.key = key;
    this.length = stream.response().contentLength();
    this.etag = stream.response().eTag();
    this.stream = stream;
  }

  @Override
  public int read() throws IOException {
    byte[] one = new byte[1];
    return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
  }

  @Override
  public int read(byte[] into, int offset, int count) throws IOException {
    if (position >= length) {
      return -1;
    }
    long beganNs = System.nanoTime();
    for (int attempt = 1; ; attempt++) {
      if (stream == null) {
        stream = bucket.rest(key, position, etag);
        if (stream == null) {
          throw new EOFException("checkpoint object " + key + " was deleted while it was read");
        }
      }
      try {
        int got = stream.read(into, offset, count);
        if (got < 0) {
          throw new EOFException("checkpoint object " + key + " ended at " + position + " of " + length + " bytes");
        }
        position += got;
        return got;
      } catch (IOException broken) {
        close();
        bucket.patience().pause(attempt, beganNs, broken);
      }
    }
  }

  @Override
  public void seek(long to) throws IOException {
    if (to < 0 || to > length) {
      throw new EOFException("seek to " + to + " in an object of " + length + " bytes");
    }
    if (to != position) {
      close();
      position = to;
    }
  }

  @Override
  public long getPos() {
    return position;
  }

  @Override
  public boolean seekToNewSource(long to) {
    return false;
  }

  /** What was not read is not waited for. */
  @Override
  public void close() {
    if (stream != null) {
      stream.abort();
      stream = null;
    }
  }
}
