package org.effectivelyonce.checkpoint;

import java.io.EOFException;
import java.io.IOException;
import org.apache.hadoop.fs.FSInputStream;
import software.amazon.awssdk.core.ResponseInputStream;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;

/** A large object, read as it arrives; another position is another request. */
final class SeekableObject extends FSInputStream {
  private final Bucket bucket;
  private final String key;
  private final long length;
  private ResponseInputStream<GetObjectResponse> stream;
  private long position;

  SeekableObject(Bucket bucket, String key, ResponseInputStream<GetObjectResponse> stream) {
    this.bucket = bucket;
    this.key = key;
    this.length = stream.response().contentLength();
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
    if (stream == null) {
      stream = bucket.stream(key, position);
      if (stream == null) {
        throw new EOFException("checkpoint object " + key + " was deleted while it was read");
      }
    }
    int got = stream.read(into, offset, count);
    if (got < 0) {
      throw new EOFException("checkpoint object " + key + " ended at " + position + " of " + length + " bytes");
    }
    position += got;
    return got;
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
