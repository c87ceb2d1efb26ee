package org.effectivelyonce.checkpoint;

import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.io.IOException;
import org.apache.hadoop.fs.PositionedReadable;
import org.apache.hadoop.fs.Seekable;

/** A checkpoint object held in memory, with the positioned reads that Hadoop's stream asks for. */
final class SeekableBytes extends ByteArrayInputStream implements Seekable, PositionedReadable {
  SeekableBytes(byte[] content) {
    super(content);
  }

  @Override
  public void seek(long position) throws IOException {
    if (position < 0 || position > count) {
      throw new EOFException("seek to " + position + " in an object of " + count + " bytes");
    }
    pos = (int) position;
  }

  @Override
  public long getPos() {
    return pos;
  }

  @Override
  public boolean seekToNewSource(long position) {
    return false;
  }

  @Override
  public int read(long position, byte[] into, int offset, int length) {
    if (position < 0 || position >= count) {
      return -1;
    }
    int copied = Math.min(length, count - (int) position);
    System.arraycopy(buf, (int) position, into, offset, copied);
    return copied;
  }

  @Override
  public void readFully(long position, byte[] into, int offset, int length) throws IOException {
    if (read(position, into, offset, length) < length) {
      throw new EOFException("object ends before " + (position + length));
    }
  }

  @Override
  public void readFully(long position, byte[] into) throws IOException {
    readFully(position, into, 0, into.length);
  }
}
